#include "tests/engine/kernels_gradient.h"

#include <doctest/doctest.h>

#include <array>

#include "engine/cpu/attention.h"
#include "engine/cpu/embedding.h"
#include "engine/cpu/gelu.h"
#include "engine/cpu/layernorm.h"
#include "engine/cpu/linear.h"
#include "engine/cpu/softmax_cross_entropy.h"

namespace nqd::engine::cpu {

using nqd::tests::check_gradient;
using nqd::tests::dot;
using nqd::tests::random_values;
using nqd::tests::Values;

TEST_CASE("embedding gradients match finite differences, repeated tokens included") {
  constexpr std::int64_t kBatch = 2, kSequence = 3, kWidth = 5, kVocab = 4;
  const std::array<std::int32_t, 6> tokens = {3, 1, 3, 0, 3, 1};
  Values token_table = random_values(kVocab * kWidth, 1);
  Values position_table = random_values(kSequence * kWidth, 2);
  const Values weight = random_values(tokens.size() * kWidth, 3);
  const auto loss = [&] {
    Values out(weight.size());
    embedding_forward(out.data(), tokens.data(), token_table.data(), position_table.data(), kBatch,
                      kSequence, kWidth);
    return dot(out, weight);
  };
  Values d_token(token_table.size()), d_position(position_table.size());
  embedding_backward(d_token.data(), d_position.data(), weight.data(), tokens.data(), kBatch,
                     kSequence, kWidth);
  check_gradient(token_table, d_token, loss);
  check_gradient(position_table, d_position, loss);
}

TEST_CASE("layernorm gradients match finite differences") {
  constexpr std::int64_t kRows = 3;
  for (const std::int64_t width : {std::int64_t{1 + 16}, std::int64_t{40}}) {
    const auto size = static_cast<std::size_t>(kRows * width);
    Values in = random_values(size, 1, 2.0);
    Values weight = random_values(static_cast<std::size_t>(width), 2);
    Values bias = random_values(static_cast<std::size_t>(width), 3);
    const Values d_out = random_values(size, 4);
    Values out(size), mean(kRows), rstd(kRows);
    const auto loss = [&] {
      layernorm_forward(out.data(), mean.data(), rstd.data(), in.data(), weight.data(), bias.data(),
                        kRows, width);
      return dot(out, d_out);
    };
    loss();
    Values d_in(size), d_weight(weight.size()), d_bias(bias.size());
    layernorm_backward(d_in.data(), d_weight.data(), d_bias.data(), d_out.data(), in.data(),
                       weight.data(), mean.data(), rstd.data(), kRows, width);
    check_gradient(in, d_in, loss);
    check_gradient(weight, d_weight, loss);
    check_gradient(bias, d_bias, loss);
  }
}

TEST_CASE("linear gradients match finite differences, with a bias and a residual") {
  constexpr std::int64_t kRows = 4, kIn = 5, kOut = 3;
  Values in = random_values(kRows * kIn, 1);
  Values weight = random_values(kOut * kIn, 2);
  Values bias = random_values(kOut, 3);
  Values residual = random_values(kRows * kOut, 4);
  const Values d_out = random_values(kRows * kOut, 5);
  const auto loss = [&] {
    Values out(kRows * kOut, 1e6);
    linear_forward(out.data(), in.data(), weight.data(), bias.data(), residual.data(), kRows, kIn,
                   kOut);
    return dot(out, d_out);
  };
  Values d_in(in.size(), 1e6), d_weight(weight.size()), d_bias(bias.size());
  linear_backward(d_in.data(), d_weight.data(), d_bias.data(), d_out.data(), in.data(),
                  weight.data(), kRows, kIn, kOut);
  check_gradient(in, d_in, loss);
  check_gradient(weight, d_weight, loss);
  check_gradient(bias, d_bias, loss);
  check_gradient(residual, d_out, loss);
}

TEST_CASE("a linear layer without bias overwrites its output") {
  constexpr std::int64_t kRows = 2, kIn = 3, kOut = 2;
  const Values in = {1, 2, 3, 4, 5, 6};
  const Values weight = {1, 0, 0, 0, 1, 1};
  Values out(kRows * kOut, 99.0);
  linear_forward<double>(out.data(), in.data(), weight.data(), nullptr, nullptr, kRows, kIn, kOut);
  CHECK(out == Values{1, 5, 4, 11});
}

TEST_CASE("gelu gradient matches finite differences on both tails") {
  Values in = random_values(64, 1, 6.0);
  const Values d_out = random_values(in.size(), 2);
  const auto loss = [&] {
    Values out(in.size());
    gelu_forward(out.data(), in.data(), static_cast<std::int64_t>(in.size()));
    return dot(out, d_out);
  };
  Values d_in = d_out;
  gelu_backward_in_place(d_in.data(), in.data(), static_cast<std::int64_t>(in.size()));
  check_gradient(in, d_in, loss);
}

TEST_CASE("attention gradients match finite differences across block borders") {
  // One whole block and a partial one; fewer tokens than a block; a single token's head.
  for (const AttentionShape shape : {AttentionShape{1, kAttentionBlock + 3, 1, 2},
                                     AttentionShape{2, 5, 2, 6}, AttentionShape{1, 3, 4, 4}}) {
    const auto rows = static_cast<std::size_t>(shape.batch * shape.sequence);
    const auto hidden = static_cast<std::size_t>(shape.hidden);
    const auto square = static_cast<std::size_t>(shape.sequence * shape.sequence);
    Values qkv = random_values(rows * 3 * hidden, 1, 1.5);
    const Values d_out = random_values(rows * hidden, 2);
    Values probabilities(static_cast<std::size_t>(shape.batch * shape.heads) * square);
    Values out(rows * hidden);
    const auto loss = [&] {
      attention_forward(out.data(), probabilities.data(), qkv.data(), shape);
      return dot(out, d_out);
    };
    loss();
    Values d_qkv(qkv.size(), 1e6), scratch(square, 1e6);
    attention_backward(d_qkv.data(), scratch.data(), d_out.data(), probabilities.data(), qkv.data(),
                       shape);
    check_gradient(qkv, d_qkv, loss);
  }
}

TEST_CASE("attention never looks ahead") {
  const AttentionShape shape{1, kAttentionBlock + 2, 1, 2};
  Values qkv = random_values(static_cast<std::size_t>(shape.sequence * 3 * shape.hidden), 1);
  Values probabilities(static_cast<std::size_t>(shape.sequence * shape.sequence));
  Values before(static_cast<std::size_t>(shape.sequence * shape.hidden)), after = before;
  attention_forward(before.data(), probabilities.data(), qkv.data(), shape);
  for (std::int64_t changed : {std::int64_t{1}, shape.sequence - 1}) {
    Values other = qkv;
    for (std::int64_t i = changed * 3 * shape.hidden; i < (changed + 1) * 3 * shape.hidden; ++i) {
      other[static_cast<std::size_t>(i)] += 1;
    }
    attention_forward(after.data(), probabilities.data(), other.data(), shape);
    const auto border = static_cast<std::ptrdiff_t>(changed * shape.hidden);
    CHECK(std::equal(before.begin(), before.begin() + border, after.begin()));
    CHECK_FALSE(std::equal(before.begin() + border, before.end(), after.begin() + border));
  }
}

TEST_CASE("cross-entropy gradient matches finite differences and skips masked rows") {
  constexpr std::int64_t kRows = 4, kVocab = 21;
  const std::array<std::int32_t, kRows> targets = {0, kMaskedTarget, 20, 7};
  Values logits = random_values(kRows * kVocab, 1, 3.0);
  constexpr double kScale = 0.25;
  const auto loss = [&] {
    Values work = logits;
    return kScale * softmax_cross_entropy_forward(work.data(), targets.data(), kRows, kVocab);
  };
  Values gradient = logits;
  softmax_cross_entropy_forward(gradient.data(), targets.data(), kRows, kVocab);
  softmax_cross_entropy_backward(gradient.data(), targets.data(), kScale, kRows, kVocab);
  check_gradient(logits, gradient, loss);
  for (std::int64_t i = kVocab; i < 2 * kVocab; ++i) {
    CHECK(gradient[static_cast<std::size_t>(i)] == 0);
  }
}

TEST_CASE("cross-entropy of equal logits is the logarithm of the vocabulary, huge ones included") {
  for (const double value : {0.0, 1000.0, -1000.0}) {
    Values logits(16, value);
    const std::array<std::int32_t, 2> targets = {3, 5};
    CHECK(softmax_cross_entropy_forward(logits.data(), targets.data(), 2, 8) ==
          doctest::Approx(2 * std::log(8.0)).epsilon(1e-14));
  }
}

}  // namespace nqd::engine::cpu

// Blocked attention against the materialised definition, finite differences, and itself on other
// splits.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "engine/cpu/blocked_attention.h"
#include "tests/engine/kernels/kernel_values.h"

namespace nqd::engine::cpu {
namespace {

using namespace nqd::tests;

// Forward and backward over packed rows [q | k | v].
template <typename S>
struct Attention {
  Attention(const AttentionLayout& at, std::vector<S> packed) : layout(at), qkv(std::move(packed)) {
    const std::int64_t rows = at.batch * at.sequence;
    out.resize(index(rows * at.out_stride));
    lse.resize(index(rows * at.heads));
    d_qkv.resize(qkv.size());
    const std::int64_t scratch_size =
        std::max(attention_forward_scratch(at), attention_backward_scratch(at));
    // Kernels must not depend on what scratch held.
    scratch.assign(index(scratch_size), std::numeric_limits<Compute<S>>::quiet_NaN());
  }

  std::int64_t k_at() const { return layout.heads * layout.head_width; }
  std::int64_t v_at() const { return (layout.heads + layout.kv_heads) * layout.head_width; }

  void forward(const AttentionDropout* dropout = nullptr) {
    blocked_attention_forward(out.data(), lse.data(), qkv.data(), qkv.data() + k_at(),
                              qkv.data() + v_at(), layout, {0, layout.kv_items()}, dropout,
                              scratch.data());
  }
  void backward(const std::vector<S>& d_out, const AttentionDropout* dropout = nullptr) {
    S* d = d_qkv.data();
    blocked_attention_backward(d, d + k_at(), d + v_at(), d_out.data(), out.data(), lse.data(),
                               qkv.data(), qkv.data() + k_at(), qkv.data() + v_at(), layout,
                               {0, layout.kv_items()}, dropout, scratch.data());
  }

  AttentionLayout layout;
  std::vector<S> qkv, out, d_qkv;
  std::vector<Compute<S>> lse, scratch;
};

std::size_t packed_size(const AttentionLayout& layout) {
  return index(layout.batch * layout.sequence * layout.q_stride);
}

struct Definition {
  Values out, lse;
};

// softmax(q · kᵀ / √d) · v with every score in memory.
Definition definition(const Values& qkv, const AttentionLayout& at) {
  const std::int64_t rows = at.batch * at.sequence;
  Definition found{Values(index(rows * at.out_stride)), Values(index(rows * at.heads))};
  const auto value = [&](std::int64_t row, std::int64_t head, std::int64_t column) {
    return qkv[index(row * at.q_stride + head * at.head_width + column)];
  };
  for (std::int64_t b = 0; b < at.batch; ++b) {
    for (std::int64_t head = 0; head < at.heads; ++head) {
      const std::int64_t k_head = at.heads + head * at.kv_heads / at.heads;
      for (std::int64_t i = 0; i < at.sequence; ++i) {
        const std::int64_t row = b * at.sequence + i;
        Values weights(index(at.causal ? i + 1 : at.sequence));
        double sum = 0;
        for (std::size_t j = 0; j < weights.size(); ++j) {
          double score = 0;
          for (std::int64_t c = 0; c < at.head_width; ++c) {
            score += value(row, head, c) *
                     value(b * at.sequence + static_cast<std::int64_t>(j), k_head, c);
          }
          weights[j] = std::exp(score / std::sqrt(static_cast<double>(at.head_width)));
          sum += weights[j];
        }
        for (std::size_t j = 0; j < weights.size(); ++j) {
          for (std::int64_t c = 0; c < at.head_width; ++c) {
            found.out[index(row * at.out_stride + head * at.head_width + c)] +=
                weights[j] / sum *
                value(b * at.sequence + static_cast<std::int64_t>(j), k_head + at.kv_heads, c);
          }
        }
        found.lse[index((b * at.heads + head) * at.sequence + i)] = std::log(sum);
      }
    }
  }
  return found;
}

// Lengths on both sides of the blocks of 48 queries and 192 keys.
const std::vector<AttentionLayout> kLayouts = {
    packed_attention(2, 5, 3, 3, 4, true),     packed_attention(1, 61, 4, 2, 20, true),
    packed_attention(1, 250, 2, 1, 64, true),  packed_attention(1, 192, 2, 2, 16, false),
    packed_attention(1, 401, 2, 1, 17, false), packed_attention(2, 49, 6, 2, 8, true),
    packed_attention(1, 1, 1, 1, 1, true),
};

}  // namespace

TEST_CASE("blocked attention is the materialised definition") {
  for (const AttentionLayout& layout : kLayouts) {
    INFO("sequence ", layout.sequence, ", heads ", layout.heads, ", causal ", layout.causal);
    Attention<double> exact(layout, random_values(packed_size(layout), 5, 1.5));
    exact.forward();
    const Definition expected = definition(exact.qkv, layout);
    CHECK(largest_difference(exact.out, expected.out) < 1e-13);
    CHECK(largest_difference(exact.lse, expected.lse) < 1e-13);

    Attention<float> single(layout, random_stored<float>(packed_size(layout), 5, 1.5));
    single.forward();
    CHECK(largest_difference(as_doubles(single.out), expected.out) < 3e-6);

    // The output, below 2, is rounded to 8 significant bits.
    Attention<BFloat16> half(layout, random_stored<BFloat16>(packed_size(layout), 5, 1.5));
    half.forward();
    const Definition of_rounded = definition(as_doubles(half.qkv), layout);
    CHECK(largest_difference(as_doubles(half.out), of_rounded.out) < 0x1p-8 + 1e-5);
  }
}

TEST_CASE("attention's gradients match finite differences") {
  for (const auto& layout :
       {packed_attention(1, 5, 2, 2, 3, true), packed_attention(2, 6, 4, 2, 4, false),
        packed_attention(1, 53, 2, 1, 2, true), packed_attention(1, 195, 1, 1, 1, true)}) {
    Attention<double> attention(layout, random_values(packed_size(layout), 7, 2.0));
    const Values weights = random_values(attention.out.size(), 8);
    attention.forward();
    attention.backward(weights);
    const auto loss = [&] {
      attention.forward();
      return dot(weights, attention.out);
    };
    check_gradient(attention.qkv, attention.d_qkv, loss);
  }
}

TEST_CASE("float gradients of attention are those of double") {
  for (const AttentionLayout& layout : kLayouts) {
    if (layout.sequence == 1) continue;  // one weight, always 1: dq and dk are 0
    Attention<double> exact(layout, random_values(packed_size(layout), 11));
    Attention<float> single(layout, random_stored<float>(packed_size(layout), 11));
    const Values d_out = random_values(exact.out.size(), 12);
    exact.forward();
    exact.backward(d_out);
    single.forward();
    single.backward(random_stored<float>(single.out.size(), 12));
    CHECK(largest_difference(as_doubles(single.d_qkv), exact.d_qkv) < 2e-5);
  }
}

TEST_CASE("a head's bits depend neither on the other heads, the batch, nor the strides") {
  const std::int64_t sequence = 101, width = 24;
  const auto layout = packed_attention(3, sequence, 4, 2, width, true);
  Attention<float> whole(layout, random_stored<float>(packed_size(layout), 21));
  const auto d_out = random_stored<float>(whole.out.size(), 22);
  whole.forward();
  whole.backward(d_out);

  // Sequence 1, key head 1 with its two query heads, alone.
  const auto own = packed_attention(1, sequence, 2, 1, width, true);
  const auto cut = [&](const std::vector<float>& from, std::int64_t stride, std::int64_t column,
                       std::int64_t columns, std::vector<float>& to, std::int64_t to_stride,
                       std::int64_t to_column) {
    for (std::int64_t i = 0; i < sequence; ++i) {
      for (std::int64_t c = 0; c < columns; ++c) {
        to[index(i * to_stride + to_column + c)] =
            from[index((sequence + i) * stride + column + c)];
      }
    }
  };
  const auto cut_packed = [&](const std::vector<float>& from) {
    std::vector<float> to(packed_size(own));
    cut(from, layout.q_stride, 2 * width, 2 * width, to, own.q_stride, 0);
    cut(from, layout.q_stride, 5 * width, width, to, own.q_stride, 2 * width);
    cut(from, layout.q_stride, 7 * width, width, to, own.q_stride, 3 * width);
    return to;
  };
  const auto cut_out = [&](const std::vector<float>& from) {
    std::vector<float> to(index(sequence * own.out_stride));
    cut(from, layout.out_stride, 2 * width, 2 * width, to, own.out_stride, 0);
    return to;
  };
  Attention<float> alone(own, cut_packed(whole.qkv));
  alone.forward();
  alone.backward(cut_out(d_out));
  CHECK(same_bits(alone.out, cut_out(whole.out)));
  CHECK(same_bits(alone.d_qkv, cut_packed(whole.d_qkv)));
}

TEST_CASE("ranges of heads make the whole, and a token's output ignores what follows it") {
  const auto layout = packed_attention(2, 77, 4, 2, 8, true);
  Attention<float> whole(layout, random_stored<float>(packed_size(layout), 31));
  whole.forward();
  Attention<float> parts(layout, whole.qkv);
  for (std::int64_t item : {2, 0, 3, 1}) {
    const float* q = parts.qkv.data();
    blocked_attention_forward(parts.out.data(), parts.lse.data(), q, q + parts.k_at(),
                              q + parts.v_at(), layout, {item, item + 1}, nullptr,
                              parts.scratch.data());
  }
  CHECK(same_bits(parts.out, whole.out));
  CHECK(same_bits(parts.lse, whole.lse));

  for (const std::int64_t changed : {1, 47, 48, 76}) {
    Attention<float> other(layout, whole.qkv);
    for (std::int64_t i = 0; i < layout.q_stride; ++i) {
      other.qkv[index(changed * layout.q_stride + i)] += 1;
    }
    other.forward();
    const auto border = static_cast<std::size_t>(changed * layout.out_stride);
    CHECK(same_bits(std::span<const float>(other.out).first(border),
                    std::span<const float>(whole.out).first(border)));
    CHECK_FALSE(same_bits(std::span<const float>(other.out).subspan(border),
                          std::span<const float>(whole.out).subspan(border)));
  }
}

TEST_CASE("a shorter sequence has the bits of a longer one's beginning") {
  const auto long_layout = packed_attention(1, 230, 1, 1, 16, true);
  Attention<float> longer(long_layout, random_stored<float>(packed_size(long_layout), 41));
  longer.forward();
  for (const std::int64_t length : {1, 13, 48, 193, 229}) {
    const auto layout = packed_attention(1, length, 1, 1, 16, true);
    std::vector<float> begin(longer.qkv.begin(),
                             longer.qkv.begin() + static_cast<std::ptrdiff_t>(packed_size(layout)));
    Attention<float> shorter(layout, std::move(begin));
    shorter.forward();
    CHECK(same_bits(std::span<const float>(shorter.out),
                    std::span<const float>(longer.out).first(shorter.out.size())));
  }
}

TEST_CASE("large scores neither overflow nor lose the row") {
  const auto layout = packed_attention(1, 300, 1, 1, 4, true);
  Attention<float> attention(layout, random_stored<float>(packed_size(layout), 51, 1e3));
  attention.forward();
  attention.backward(random_stored<float>(attention.out.size(), 52));
  // The first token sees itself alone.
  CHECK(std::equal(attention.out.begin(), attention.out.begin() + 4,
                   attention.qkv.begin() + attention.v_at()));
  for (const float value : attention.out) CHECK(std::abs(value) <= 1001.0F);
  for (const float value : attention.lse) CHECK(std::isfinite(value));
  for (const float value : attention.d_qkv) CHECK(std::isfinite(value));
}

TEST_CASE("dropout of attention: gradients under one mask, and masks that no split changes") {
  const auto layout = packed_attention(2, 50, 2, 2, 3, true);
  AttentionDropout dropout{
      .dropout = {.rate = 0.3, .seed = 9, .step = 4, .layer = 2, .site = DropoutSite::kAttention},
      .first_sequence = 6,
      .first_head = 4,
      .model_heads = 8};
  Attention<double> attention(layout, random_values(packed_size(layout), 61));
  const Values weights = random_values(attention.out.size(), 62);
  attention.forward(&dropout);
  const Values dropped = attention.out;
  attention.backward(weights, &dropout);
  check_gradient(attention.qkv, attention.d_qkv, [&] {
    attention.forward(&dropout);
    return dot(weights, attention.out);
  });
  attention.forward();
  CHECK(largest_difference(attention.out, dropped) > 0.1);

  // The second sequence and head alone.
  const auto own = packed_attention(1, 50, 1, 1, 3, true);
  Attention<double> alone(own, Values(packed_size(own)));
  for (std::int64_t i = 0; i < 50; ++i) {
    for (std::int64_t part = 0; part < 3; ++part) {
      for (std::int64_t c = 0; c < 3; ++c) {
        alone.qkv[index(i * 9 + part * 3 + c)] =
            attention.qkv[index((50 + i) * 18 + part * 6 + 3 + c)];
      }
    }
  }
  dropout.first_sequence += 1;
  dropout.first_head += 1;
  alone.forward(&dropout);
  for (std::int64_t i = 0; i < 50; ++i) {
    for (std::int64_t c = 0; c < 3; ++c) {
      REQUIRE(alone.out[index(i * 3 + c)] == dropped[index((50 + i) * 6 + 3 + c)]);
    }
  }
}

}  // namespace nqd::engine::cpu

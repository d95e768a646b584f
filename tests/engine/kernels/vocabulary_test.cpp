// Both ends of the model: lookups and cross-entropy, whole and split over a vocabulary.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "engine/cpu/cross_entropy.h"
#include "engine/cpu/lookup.h"
#include "tests/engine/kernels/kernel_values.h"

namespace nqd::engine::cpu {
namespace {

using namespace nqd::tests;

// The parts in the order that ranks of a tensor-parallel group run them; each holds `slices` of 8.
template <typename S>
struct Loss {
  std::vector<double> rows;
  std::vector<S> gradient;  // [rows, vocab]
};

template <typename S>
Loss<S> split_loss(const std::vector<S>& logits, const std::vector<std::int32_t>& targets,
                   std::int64_t vocab, std::int64_t ranks, Compute<S> scale) {
  using T = Compute<S>;
  const auto rows = static_cast<std::int64_t>(targets.size());
  const std::int64_t width = (vocab + 7) / 8, local = 8 / ranks * width;
  std::vector<LogitsShape> shapes;
  std::vector<std::vector<S>> parts;
  std::vector<T> maximum(index(rows), -std::numeric_limits<T>::infinity());
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const std::int64_t first = rank * local;
    const LogitsShape shape{.rows = rows,
                            .stride = local,
                            .valid = std::clamp(vocab - first, std::int64_t{0}, local),
                            .first = first,
                            .slice_width = width,
                            .slices = 8 / ranks};
    // Padding holds what must not be read as a logit.
    parts.emplace_back(index(rows * local), narrow<S>(T(1e4)));
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < shape.valid; ++c) {
        parts.back()[index(r * local + c)] = logits[index(r * vocab + first + c)];
      }
    }
    std::vector<T> own(index(rows));
    cross_entropy_maximum(own.data(), parts.back().data(), shape);
    for (std::size_t r = 0; r < own.size(); ++r) maximum[r] = std::max(maximum[r], own[r]);
    shapes.push_back(shape);
  }
  std::vector<std::vector<T>> sums;
  std::vector<T> at_target(index(rows));
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    std::vector<T> own_target(index(rows));
    sums.emplace_back(index(rows));
    cross_entropy_sums(sums.back().data(), own_target.data(), parts[rank].data(), targets.data(),
                       maximum.data(), shapes[rank]);
    for (std::size_t r = 0; r < own_target.size(); ++r) at_target[r] += own_target[r];
  }
  for (std::size_t step = 1; step < sums.size(); step *= 2) {
    for (std::size_t i = 0; i < sums.size(); i += 2 * step) {
      for (std::size_t r = 0; r < sums[i].size(); ++r) sums[i][r] += sums[i + step][r];
    }
  }
  Loss<S> found{std::vector<double>(index(rows)), std::vector<S>(index(rows * vocab))};
  cross_entropy_losses(found.rows.data(), maximum.data(), sums[0].data(), at_target.data(),
                       targets.data(), rows);
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    const LogitsShape& shape = shapes[rank];
    cross_entropy_backward(parts[rank].data(), targets.data(), maximum.data(), sums[0].data(),
                           scale, shape);
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < local; ++c) {
        const S value = parts[rank][index(r * local + c)];
        if (c < shape.valid) {
          found.gradient[index(r * vocab + shape.first + c)] = value;
        } else {
          REQUIRE(widen(value) == T(0));
        }
      }
    }
  }
  return found;
}

}  // namespace

TEST_CASE("cross-entropy: the definition, finite differences, masked rows") {
  const std::int64_t vocab = 21;
  const std::vector<std::int32_t> targets = {0, kNoTarget, 20, 7};
  Values logits = random_values(4 * 21, 1, 3.0);
  const auto loss = [&] {
    double sum = 0;
    for (const double row : split_loss(logits, targets, vocab, 1, 1.0).rows) sum += row;
    return sum;
  };
  double expected = 0;
  for (std::size_t row : {0U, 2U, 3U}) {
    double sum = 0;
    for (std::size_t c = 0; c < 21; ++c) sum += std::exp(logits[row * 21 + c]);
    expected += std::log(sum) - logits[row * 21 + static_cast<std::size_t>(targets[row])];
  }
  CHECK(loss() == doctest::Approx(expected).epsilon(1e-14));
  const Loss<double> found = split_loss(logits, targets, vocab, 1, 1.0);
  check_gradient(logits, found.gradient, loss);
  CHECK(found.rows[1] == 0);
  for (std::size_t c = 21; c < 42; ++c) CHECK(found.gradient[c] == 0);
}

TEST_CASE_TEMPLATE("cross-entropy is equal bits on 1, 2, 4 and 8 ranks of the vocabulary", S, float,
                   BFloat16, Float16) {
  // 250 = 7 slices of 32 and one of 26; 17: slices 6 and 7 are empty, and so is the last rank of 4.
  for (const std::int64_t vocab : {250, 17, 8, 1}) {
    const auto logits = random_stored<S>(index(5 * vocab), 3, 8.0);
    std::vector<std::int32_t> targets = {0, kNoTarget, static_cast<std::int32_t>(vocab - 1),
                                         static_cast<std::int32_t>(vocab / 2), 0};
    const Loss<S> one = split_loss<S>(logits, targets, vocab, 1, 0.5F);
    for (const std::int64_t ranks : {2, 4, 8}) {
      const Loss<S> split = split_loss<S>(logits, targets, vocab, ranks, 0.5F);
      CHECK(split.rows == one.rows);
      CHECK(same_bits(split.gradient, one.gradient));
    }
  }
}

TEST_CASE("cross-entropy of huge logits is finite, and a NaN reaches the loss") {
  for (const float value : {0.0F, 1e30F, -1e30F}) {
    const Loss<float> found = split_loss<float>(std::vector<float>(16, value), {3, 5}, 8, 2, 1.0F);
    CHECK(found.rows[0] == doctest::Approx(std::log(8.0)).epsilon(1e-6));
  }
  std::vector<float> logits(16, 0.0F);
  logits[9] = std::numeric_limits<float>::quiet_NaN();
  const Loss<float> found = split_loss<float>(logits, {3, 5}, 8, 2, 1.0F);
  CHECK(std::isfinite(found.rows[0]));
  CHECK(std::isnan(found.rows[1]));
}

TEST_CASE_TEMPLATE("token rows of vocabulary ranges sum to the whole lookup", S, float, BFloat16) {
  const std::int64_t width = 19;
  auto table = random_stored<S>(10 * 19, 1);
  table[3 * 19] = narrow<S>(-0.0F);
  const std::vector<std::int32_t> tokens = {3, 9, 0, 3, 5};
  std::vector<S> whole(5 * 19), low(5 * 19), high(5 * 19);
  token_lookup(whole.data(), tokens.data(), table.data(), {0, 10}, 5, width);
  token_lookup(low.data(), tokens.data(), table.data(), {0, 5}, 5, width);
  token_lookup(high.data(), tokens.data(), table.data() + 5 * 19, {5, 10}, 5, width);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    const S sum = narrow<S>(widen(low[i]) + widen(high[i]));
    REQUIRE(same_bits<S>({&sum, 1}, {&whole[i], 1}));
    REQUIRE(widen(whole[i]) == widen(table[index(tokens[i / 19] * width) + i % 19]));
  }

  const auto d_out = random_stored<S>(5 * 19, 2);
  std::vector<float> all(10 * 19, 1.0F), upper(5 * 19, 1.0F);
  token_lookup_backward(all.data(), d_out.data(), tokens.data(), {0, 10}, 5, width);
  token_lookup_backward(upper.data(), d_out.data(), tokens.data(), {5, 10}, 5, width);
  CHECK(same_bits<float>(upper, std::span<const float>(all).subspan(5 * 19)));
  for (std::size_t c = 0; c < 19; ++c) {
    CHECK(all[3 * 19 + c] == 1.0F + widen(d_out[c]) + widen(d_out[3 * 19 + c]));
    CHECK(all[1 * 19 + c] == 1.0F);
  }
}

TEST_CASE("positions: rows of a split micro-batch, and gradients that no split changes") {
  const std::int64_t batch = 4, sequence = 6, width = 5, rows = batch * sequence;
  const auto table = random_stored<float>(index(sequence * width), 1);
  const auto start = random_stored<float>(index(rows * width), 2);
  std::vector<float> whole = start, split = start;
  add_positions(whole.data(), table.data(), 0, rows, sequence, width);
  for (std::int64_t first = 0; first < rows; first += 8) {
    add_positions(&split[index(first * width)], table.data(), first, 8, sequence, width);
  }
  CHECK(same_bits(split, whole));
  CHECK(whole[index(13 * width)] == start[index(13 * width)] + table[index(width)]);

  const auto gradient = [&](std::int64_t ranks) {
    std::vector<std::vector<float>> parts;
    const std::int64_t own = rows / ranks;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      parts.emplace_back(index(sequence * width), 0.0F);
      add_positions_backward(parts.back().data(), &start[index(rank * own * width)], rank * own,
                             own, sequence, width, 8 / ranks);
    }
    for (std::size_t step = 1; step < parts.size(); step *= 2) {
      for (std::size_t i = 0; i < parts.size(); i += 2 * step) {
        for (std::size_t c = 0; c < parts[i].size(); ++c) parts[i][c] += parts[i + step][c];
      }
    }
    return parts[0];
  };
  const std::vector<float> one = gradient(1);
  for (std::int64_t ranks : {2, 4, 8}) CHECK(same_bits(gradient(ranks), one));
  for (std::size_t i = 0; i < one.size(); ++i) {
    double sum = 0;
    for (std::size_t b = 0; b < 4; ++b) sum += static_cast<double>(start[b * 30 + i]);
    CHECK(static_cast<double>(one[i]) == doctest::Approx(sum).epsilon(1e-5));
  }
}

}  // namespace nqd::engine::cpu

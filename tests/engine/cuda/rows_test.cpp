// Kernels that sum: norms, columns, lookups, cross-entropy; on the host, against the CPU's.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "engine/cpu/convert.h"
#include "engine/cuda/kernels/bodies/cross_entropy.h"
#include "engine/cuda/kernels/bodies/lookup.h"
#include "engine/cuda/kernels/bodies/norms.h"
#include "tests/engine/cuda/host_block.h"

namespace nqd::engine::cuda {
namespace {

using namespace nqd::tests;

// In packs and not.
constexpr std::int64_t kWidths[] = {304, 133};

std::vector<float> scratch_of(int sums, std::int64_t rows, std::int64_t width,
                              std::int64_t blocks) {
  // Kernels must not depend on what scratch held.
  return std::vector<float>(index(bodies::row_chunks(rows, blocks).chunks() * sums * width),
                            std::numeric_limits<float>::quiet_NaN());
}

template <typename S>
std::vector<float> widened(const std::vector<S>& x) {
  std::vector<float> out;
  for (const S& value : x) out.push_back(cpu::widen(value));
  return out;
}

// Rows of outputs, statistics and gradients in one vector.
std::vector<float>& append(std::vector<float>& to, const std::vector<float>& from) {
  to.insert(to.end(), from.begin(), from.end());
  return to;
}

TEST_CASE_TEMPLATE("layer norm is the CPU's, forward and backward", S, float, BFloat16) {
  for (const std::int64_t width : kWidths) {
    const std::int64_t rows = 200, blocks = 2;
    const cpu::NormShape shape{rows, width};
    const auto x = random_stored<S>(index(rows * width), 1);
    const auto dy = random_stored<S>(index(rows * width), 2);
    const auto past = random_stored<S>(index(rows * width), 3);
    const auto weight = random_stored<S>(index(width), 4), bias = random_stored<S>(index(width), 5);
    std::vector<S> y(x.size()), dx(x.size());
    std::vector<float> mean(index(rows)), rstd(index(rows)), dw(index(width), 1), db(index(width));
    cpu::layer_norm_forward(y.data(), mean.data(), rstd.data(), x.data(), weight.data(),
                            bias.data(), shape);
    cpu::layer_norm_backward_input(dx.data(), past.data(), dy.data(), x.data(), weight.data(),
                                   mean.data(), rstd.data(), shape);
    cpu::layer_norm_backward_weight(dw.data(), db.data(), dy.data(), x.data(), mean.data(),
                                    rstd.data(), shape, blocks);
    std::vector<float> expected = widened(y), sums = dw;
    append(append(append(expected, widened(dx)), mean), rstd);
    append(sums, db);

    check_close<S>(emulate([&](const auto& run) {
                     std::vector<S> out(x.size()), d = past;
                     std::vector<float> m(index(rows)), r(index(rows));
                     bodies::norm_forward<true>(run, out.data(), m.data(), r.data(), x.data(),
                                                weight.data(), bias.data(), shape);
                     bodies::norm_backward_input<true>(run, d.data(), d.data(), dy.data(), x.data(),
                                                       weight.data(), mean.data(), rstd.data(),
                                                       shape);
                     std::vector<float> all = widened(out);
                     append(append(append(all, widened(d)), m), r);
                     return all;
                   }),
                   expected, 16);
    check_close<float>(emulate([&](const auto& run) {
                         std::vector<float> w(index(width), 1), b(index(width));
                         auto scratch = scratch_of(2, rows, width, blocks);
                         bodies::norm_backward_weight<true>(run, {{w.data(), b.data()}}, dy.data(),
                                                            x.data(), mean.data(), rstd.data(),
                                                            shape, blocks, scratch.data());
                         return append(w, b);
                       }),
                       sums, 64);
  }
}

TEST_CASE_TEMPLATE("RMS norm is the CPU's, forward and backward", S, float, BFloat16) {
  for (const std::int64_t width : kWidths) {
    const std::int64_t rows = 70;
    const cpu::NormShape shape{rows, width};
    const auto x = random_stored<S>(index(rows * width), 1);
    const auto dy = random_stored<S>(index(rows * width), 2);
    const auto weight = random_stored<S>(index(width), 4);
    std::vector<S> y(x.size()), dx(x.size());
    std::vector<float> rstd(index(rows)), dw(index(width));
    cpu::rms_norm_forward(y.data(), rstd.data(), x.data(), weight.data(), shape);
    cpu::rms_norm_backward_input(dx.data(), static_cast<const S*>(nullptr), dy.data(), x.data(),
                                 weight.data(), rstd.data(), shape);
    cpu::rms_norm_backward_weight(dw.data(), dy.data(), x.data(), rstd.data(), shape, 1);
    std::vector<float> expected = widened(y);
    append(append(append(expected, widened(dx)), rstd), dw);
    check_close<S>(emulate([&](const auto& run) {
                     std::vector<S> out(x.size()), d = dy;
                     std::vector<float> r(index(rows)), w(index(width));
                     auto scratch = scratch_of(1, rows, width, 1);
                     float* const no_mean = nullptr;
                     const S* const none = nullptr;
                     bodies::norm_forward<false>(run, out.data(), no_mean, r.data(), x.data(),
                                                 weight.data(), none, shape);
                     bodies::norm_backward_input<false>(run, d.data(), none, d.data(), x.data(),
                                                        weight.data(), no_mean, rstd.data(), shape);
                     bodies::norm_backward_weight<false>(run, {{w.data()}}, dy.data(), x.data(),
                                                         no_mean, rstd.data(), shape, 1,
                                                         scratch.data());
                     std::vector<float> all = widened(out);
                     append(append(append(all, widened(d)), r), w);
                     return all;
                   }),
                   expected, 32);
  }
}

TEST_CASE_TEMPLATE("norms of rows that threads hold and that they read again", S, float, BFloat16) {
  for (const std::int64_t packs : {250, 500, 700}) {
    const std::int64_t rows = 3, width = packs * kPackWidth<S>;
    const cpu::NormShape shape{rows, width};
    const auto x = random_stored<S>(index(rows * width), 1);
    const auto dy = random_stored<S>(index(rows * width), 2);
    const auto weight = random_stored<S>(index(width), 4), bias = random_stored<S>(index(width), 5);
    std::vector<S> y(x.size()), dx(x.size());
    std::vector<float> mean(index(rows)), rstd(index(rows));
    cpu::layer_norm_forward(y.data(), mean.data(), rstd.data(), x.data(), weight.data(),
                            bias.data(), shape);
    const S* const none = nullptr;
    cpu::layer_norm_backward_input(dx.data(), none, dy.data(), x.data(), weight.data(), mean.data(),
                                   rstd.data(), shape);
    std::vector<float> expected = widened(y);
    append(expected, widened(dx));
    check_close<S>(emulate([&](const auto& run) {
                     std::vector<S> out(x.size()), d(x.size());
                     std::vector<float> m(index(rows)), r(index(rows));
                     bodies::norm_forward<true>(run, out.data(), m.data(), r.data(), x.data(),
                                                weight.data(), bias.data(), shape);
                     bodies::norm_backward_input<true>(run, d.data(), none, dy.data(), x.data(),
                                                       weight.data(), mean.data(), rstd.data(),
                                                       shape);
                     std::vector<float> all = widened(out);
                     return append(all, widened(d));
                   }),
                   expected, 32);
  }
}

TEST_CASE("the sum of all columns is the tree of the parts' sums, to the bit") {
  const std::int64_t rows = 1536, width = 40, blocks = 4;
  const auto x = random_stored<BFloat16>(index(rows * width), 1);
  const auto sums_of = [&](std::int64_t first, std::int64_t count, std::int64_t of) {
    return emulate([&](const auto& run) {
      std::vector<float> sums(index(width));
      auto scratch = scratch_of(1, count, width, of);
      bodies::add_column_sums(run, sums.data(), x.data() + first * width, count, width, width, of,
                              scratch.data());
      return sums;
    });
  };
  const auto all = sums_of(0, rows, blocks);
  auto halves = sums_of(0, rows / 2, 2);
  const auto right = sums_of(rows / 2, rows / 2, 2);
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i] += right[i];
  CHECK(same_bits(all, halves));
  std::vector<float> expected(index(width));
  cpu::add_column_sums(expected.data(), x.data(), rows, width, width, blocks);
  check_close<float>(all, expected, 64);
}

TEST_CASE("a tree of any number of contributions is the canonical one") {
  for (int count = 0; count < 40; ++count) {
    TreeSum<float> sum;
    const auto x = random_stored<float>(40, 9);
    for (int i = 0; i < count; ++i) sum.add(x[index(i)]);
    const auto node = [&](const auto& self, int first, int n) -> float {
      if (n == 1) return x[index(first)];
      const int left = static_cast<int>(std::bit_floor(static_cast<unsigned>(n - 1)));
      return self(self, first, left) + self(self, first + left, n - left);
    };
    CHECK(sum.total() == (count == 0 ? 0.0F : node(node, 0, count)));
  }
}

TEST_CASE_TEMPLATE("lookups and their gradients have the CPU's bits", S, float, BFloat16) {
  for (const std::int64_t width : {std::int64_t{24}, std::int64_t{5}}) {
    const std::int64_t rows = 2100, vocabulary = 700, sequence = 60, first_row = 35, blocks = 3;
    const cpu::VocabularyRange range{100, 650};
    std::vector<std::int32_t> tokens(index(rows));
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      // Every third row has the same token: a long chain.
      const std::size_t drawn = i * 2654435761U % static_cast<std::size_t>(vocabulary);
      tokens[i] = i % 3 == 0 ? 333 : static_cast<std::int32_t>(drawn);
    }
    const std::int64_t entries = range.end - range.begin;
    auto table = random_stored<S>(index(entries * width), 1);
    table[3] = S{};
    const auto d_out = random_stored<S>(index(rows * width), 2);
    const auto positions = random_stored<S>(index(sequence * width), 3);

    std::vector<S> out(index(rows * width));
    std::vector<float> d_table(table.size(), 0.5F), d_positions(positions.size(), 0.25F);
    cpu::token_lookup(out.data(), tokens.data(), table.data(), range, rows, width);
    cpu::add_positions(out.data(), positions.data(), first_row, rows, sequence, width);
    cpu::token_lookup_backward(d_table.data(), d_out.data(), tokens.data(), range, rows, width);
    cpu::add_positions_backward(d_positions.data(), d_out.data(), first_row, rows, sequence, width,
                                blocks);
    CHECK(same_bits(
        out, emulate([&](const auto& run) {
          std::vector<S> y(out.size());
          bodies::token_lookup(run, y.data(), tokens.data(), table.data(), range, rows, width);
          bodies::add_positions(run, y.data(), positions.data(), first_row, rows, sequence, width);
          return y;
        })));
    CHECK(same_bits(d_table, emulate([&](const auto& run) {
                      std::vector<float> d(table.size(), 0.5F);
                      std::vector<std::int32_t> scratch(index(bodies::SortScratch::numbers(rows)),
                                                        -7);
                      bodies::token_lookup_backward(run, d.data(), d_out.data(), tokens.data(),
                                                    range, rows, width, scratch.data());
                      return d;
                    })));
    CHECK(same_bits(d_positions, emulate([&](const auto& run) {
                      std::vector<float> d(positions.size(), 0.25F);
                      bodies::add_positions_backward(run, d.data(), d_out.data(), first_row, rows,
                                                     sequence, width, blocks);
                      return d;
                    })));
  }
}

TEST_CASE_TEMPLATE("maximum and sum of logits in one pass, and their gradient in half the place", S,
                   BFloat16, Float16) {
  // A row of several stretches of the gradient, and one that no 16 bytes divide.
  for (const std::int64_t stride : {std::int64_t{4352}, std::int64_t{515}}) {
    const std::int64_t rows = 7;
    const cpu::LogitsShape shape{rows, stride, stride - 13, 0, stride - 13, 1};
    auto logits = random_stored<float>(index(rows * stride), 1, 5.0);
    // Falls and rises between what a thread reads in turn; and nothing but −∞ in its first.
    for (std::int64_t i = 0; i < stride; ++i) logits[index(i)] += static_cast<float>(i) / 50;
    for (std::int64_t i = 0; i < stride; ++i)
      logits[index(stride + i)] -= static_cast<float>(i) / 9;
    for (int i = 0; i < 300; ++i) {
      logits[index(2 * stride + i)] = -std::numeric_limits<float>::infinity();
    }
    const std::vector<std::int32_t> targets = {0, 5, 310, -1, 3, 501, 1};
    const auto n = index(rows);
    std::vector<float> maximum(n), sum(n), at_target(n), m(n), s(n), t(n);
    cpu::cross_entropy_maximum(maximum.data(), logits.data(), shape);
    cpu::cross_entropy_sums(sum.data(), at_target.data(), logits.data(), targets.data(),
                            maximum.data(), shape);
    cpu::cross_entropy_statistics(m.data(), s.data(), t.data(), logits.data(), targets.data(),
                                  shape);
    CHECK(same_bits(m, maximum));
    CHECK(same_bits(s, sum));
    CHECK(same_bits(t, at_target));
    std::vector<float> expected = maximum;
    append(append(expected, sum), at_target);
    const auto steps = emulate([&](const auto& run) {
      std::vector<float> of_maximum(n), of_sum(n), of_target(n);
      bodies::cross_entropy_statistics(run, of_maximum.data(), of_sum.data(), of_target.data(),
                                       logits.data(), targets.data(), shape);
      CHECK(same_bits(of_maximum, maximum));
      append(of_maximum, of_sum);
      return append(of_maximum, of_target);
    });
    check_close<float>(steps, expected, 64);

    auto wide = logits;
    cpu::cross_entropy_backward(wide.data(), targets.data(), maximum.data(), sum.data(), 0.125F,
                                shape);
    const auto gradient_in = [&](const std::vector<float>& place) {
      std::vector<S> gradient(index(rows * stride));
      for (std::int64_t row = 0; row < rows; ++row) {
        std::memcpy(static_cast<void*>(gradient.data() + row * stride), place.data() + row * stride,
                    index(stride) * sizeof(S));
      }
      return gradient;
    };
    std::vector<S> rounded(wide.size());
    cpu::narrow_all(rounded.data(), wide.data(), rows * stride);
    auto place = logits;
    cpu::cross_entropy_backward_narrow<S>(place.data(), targets.data(), maximum.data(), sum.data(),
                                          0.125F, shape);
    CHECK(same_bits(gradient_in(place), rounded));
    const auto d = emulate([&](const auto& run) {
      auto out = logits;
      bodies::cross_entropy_backward_narrow<S>(run, out.data(), targets.data(), maximum.data(),
                                               sum.data(), 0.125F, shape);
      return gradient_in(out);
    });
    check_close<S>(d, rounded, 1);
  }
}

TEST_CASE_TEMPLATE("cross-entropy is the CPU's, whole and split", S, float, BFloat16) {
  for (const std::int64_t slice : {std::int64_t{320}, std::int64_t{301}}) {
    const std::int64_t rows = 9;
    const cpu::LogitsShape shape{rows, 4 * slice, 4 * slice - 13, 0, slice, 4};
    const auto logits = random_stored<S>(index(rows * shape.stride), 1, 5.0);
    std::vector<std::int32_t> targets = {0, 5, 1000, -1, 3, 299, 300, 301, 1};
    const auto n = index(rows);
    std::vector<float> maximum(n), sum(n), at_target(n);
    std::vector<double> loss(n);
    auto gradient = logits;
    cpu::cross_entropy_maximum(maximum.data(), logits.data(), shape);
    cpu::cross_entropy_sums(sum.data(), at_target.data(), logits.data(), targets.data(),
                            maximum.data(), shape);
    cpu::cross_entropy_losses(loss.data(), maximum.data(), sum.data(), at_target.data(),
                              targets.data(), rows);
    cpu::cross_entropy_backward(gradient.data(), targets.data(), maximum.data(), sum.data(), 0.125F,
                                shape);
    std::vector<float> own_sum;
    const auto steps = emulate([&](const auto& run) {
      std::vector<float> m(n), s(n), t(n);
      bodies::cross_entropy_maximum(run, m.data(), logits.data(), shape);
      bodies::cross_entropy_sums(run, s.data(), t.data(), logits.data(), targets.data(), m.data(),
                                 shape);
      own_sum = s;
      append(m, s);
      return append(m, t);
    });
    std::vector<float> expected = maximum;
    append(append(expected, sum), at_target);
    check_close<float>(steps, expected, 64);
    const auto losses = emulate([&](const auto& run) {
      std::vector<double> out(n);
      bodies::cross_entropy_losses(run, out.data(), maximum.data(), sum.data(), at_target.data(),
                                   targets.data(), rows);
      return out;
    });
    CHECK(largest_difference(losses, loss) <= 1e-12);
    const auto d = emulate([&](const auto& run) {
      auto out = logits;
      bodies::cross_entropy_backward(run, out.data(), targets.data(), maximum.data(), sum.data(),
                                     0.125F, shape);
      return out;
    });
    check_close<S>(d, gradient, 4);

    // Rank 1 of two: its slices' sums and rank 0's are the two children of the whole sum.
    std::vector<float> halves(n, 0);
    for (std::int64_t rank = 0; rank < 2; ++rank) {
      const std::int64_t stride = 2 * slice;
      const cpu::LogitsShape part{rows,          stride, rank == 0 ? stride : stride - 13,
                                  rank * stride, slice,  2};
      std::vector<S> own;
      for (std::int64_t row = 0; row < rows; ++row) {
        const auto* from = logits.data() + row * shape.stride + rank * stride;
        own.insert(own.end(), from, from + stride);
      }
      const auto sums = emulate([&](const auto& run) {
        std::vector<float> s(n), t(n);
        bodies::cross_entropy_sums(run, s.data(), t.data(), own.data(), targets.data(),
                                   maximum.data(), part);
        return s;
      });
      for (std::size_t i = 0; i < n; ++i) halves[i] += sums[i];
    }
    CHECK(same_bits(halves, own_sum));
  }
}

}  // namespace
}  // namespace nqd::engine::cuda

// Normalisations and column sums: gradients, definitions, and sums that no split of the rows
// changes.
#include "engine/cpu/norms.h"

#include <doctest/doctest.h>

#include <cmath>

#include "tests/engine/kernels/kernel_values.h"

namespace nqd::engine::cpu {
namespace {

using namespace nqd::tests;

constexpr NormShape kShape{.rows = 8, .width = 37, .epsilon = 1e-3};
const std::size_t kSize = index(kShape.rows * kShape.width);

// Sums of 2^k blocks, each added to zeros by a rank of its own, in the tree of nearest neighbours.
template <typename Sum>
std::vector<float> sum_of_ranks(std::int64_t ranks, std::size_t width, const Sum& rank_sum) {
  std::vector<std::vector<float>> parts;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    parts.emplace_back(width, 0.0F);
    rank_sum(rank, parts.back().data());
  }
  for (std::size_t step = 1; step < parts.size(); step *= 2) {
    for (std::size_t i = 0; i < parts.size(); i += 2 * step) {
      for (std::size_t c = 0; c < width; ++c) parts[i][c] += parts[i + step][c];
    }
  }
  return parts[0];
}

}  // namespace

TEST_CASE("layer norm: the definition, and gradients by finite differences") {
  Values x = random_values(kSize, 1), weight = random_values(37, 2), bias = random_values(37, 3);
  const Values d_out = random_values(kSize, 4);
  Values y(kSize), mean(8), rstd(8);
  const auto loss = [&] {
    layer_norm_forward(y.data(), mean.data(), rstd.data(), x.data(), weight.data(), bias.data(),
                       kShape);
    return dot(d_out, y);
  };
  loss();
  for (std::size_t row = 0; row < 8; ++row) {
    double m = 0, square = 0;
    for (std::size_t i = 0; i < 37; ++i) m += x[row * 37 + i] / 37;
    for (std::size_t i = 0; i < 37; ++i) square += std::pow(x[row * 37 + i] - m, 2) / 37;
    for (std::size_t i = 0; i < 37; ++i) {
      const double expected =
          (x[row * 37 + i] - m) / std::sqrt(square + 1e-3) * weight[i] + bias[i];
      REQUIRE(y[row * 37 + i] == doctest::Approx(expected).epsilon(1e-12));
    }
  }
  Values dx(kSize), dw(37), db(37);
  layer_norm_backward_input(dx.data(), static_cast<double*>(nullptr), d_out.data(), x.data(),
                            weight.data(), mean.data(), rstd.data(), kShape);
  layer_norm_backward_weight(dw.data(), db.data(), d_out.data(), x.data(), mean.data(), rstd.data(),
                             kShape, 4);
  check_gradient(x, dx, loss);
  check_gradient(weight, dw, loss);
  check_gradient(bias, db, loss);
}

TEST_CASE("RMS norm: the definition, and gradients by finite differences") {
  Values x = random_values(kSize, 1), weight = random_values(37, 2);
  const Values d_out = random_values(kSize, 4);
  Values y(kSize), rstd(8);
  const auto loss = [&] {
    rms_norm_forward(y.data(), rstd.data(), x.data(), weight.data(), kShape);
    return dot(d_out, y);
  };
  loss();
  for (std::size_t row = 0; row < 8; ++row) {
    double square = 0;
    for (std::size_t i = 0; i < 37; ++i) square += x[row * 37 + i] * x[row * 37 + i] / 37;
    for (std::size_t i = 0; i < 37; ++i) {
      REQUIRE(
          y[row * 37 + i] ==
          doctest::Approx(x[row * 37 + i] / std::sqrt(square + 1e-3) * weight[i]).epsilon(1e-12));
    }
  }
  Values dx(kSize), dw(37);
  rms_norm_backward_input(dx.data(), static_cast<double*>(nullptr), d_out.data(), x.data(),
                          weight.data(), rstd.data(), kShape);
  rms_norm_backward_weight(dw.data(), d_out.data(), x.data(), rstd.data(), kShape, 2);
  check_gradient(x, dx, loss);
  check_gradient(weight, dw, loss);
}

TEST_CASE_TEMPLATE("a norm's residual gradient is added, in place too", S, float, BFloat16,
                   Float16) {
  const NormShape shape{.rows = 3, .width = 300};  // more than a chunk
  const auto x = random_stored<S>(900, 1), weight = random_stored<S>(300, 2);
  const auto dy = random_stored<S>(900, 3), residual = random_stored<S>(900, 4);
  std::vector<S> y(900), own(900), both(900), in_place = residual, over_dy = dy;
  std::vector<float> mean(3), rstd(3);
  layer_norm_forward(y.data(), mean.data(), rstd.data(), x.data(), weight.data(), weight.data(),
                     shape);
  const auto backward = [&](S* dx, const S* past, const S* d_out) {
    layer_norm_backward_input(dx, past, d_out, x.data(), weight.data(), mean.data(), rstd.data(),
                              shape);
  };
  backward(own.data(), nullptr, dy.data());
  backward(both.data(), residual.data(), dy.data());
  backward(in_place.data(), in_place.data(), dy.data());
  backward(over_dy.data(), nullptr, over_dy.data());
  CHECK(same_bits(in_place, both));
  CHECK(same_bits(over_dy, own));
  const double tolerance = sizeof(S) == 4 ? 1e-6 : 0x1p-6;
  for (std::size_t i = 0; i < 900; ++i) {
    const double sum = static_cast<double>(widen(own[i])) + static_cast<double>(widen(residual[i]));
    REQUIRE(std::abs(static_cast<double>(widen(both[i])) - sum) < tolerance);
  }
}

TEST_CASE("gradients of norms are equal bits on 1, 2, 4 and 8 ranks that hold the rows") {
  const std::int64_t rows = 48, width = 300, blocks = 8;
  const auto x = random_stored<float>(index(rows * width), 1);
  const auto dy = random_stored<float>(index(rows * width), 2);
  const auto mean = random_stored<float>(index(rows), 3),
             rstd = random_stored<float>(index(rows), 4);
  for (const std::int64_t ranks : {1, 2, 4, 8}) {
    const NormShape shape{.rows = rows / ranks, .width = width};
    std::vector<float> bias_gradient;
    const auto norm = [&](std::int64_t rank, float* sum) {
      const std::int64_t first = rank * shape.rows;
      std::vector<float> bias(index(width), 0.0F);
      layer_norm_backward_weight(sum, bias.data(), &dy[index(first * width)],
                                 &x[index(first * width)], &mean[index(first)], &rstd[index(first)],
                                 shape, blocks / ranks);
    };
    const auto columns = [&](std::int64_t rank, float* sum) {
      add_column_sums(sum, &dy[index(rank * shape.rows * width)], shape.rows, width, width,
                      blocks / ranks);
    };
    static std::vector<float> one_norm, one_columns;
    const std::vector<float> norm_sum = sum_of_ranks(ranks, index(width), norm);
    const std::vector<float> column_sum = sum_of_ranks(ranks, index(width), columns);
    if (ranks == 1) {
      one_norm = norm_sum;
      one_columns = column_sum;
    }
    CHECK(same_bits(norm_sum, one_norm));
    CHECK(same_bits(column_sum, one_columns));
  }
}

TEST_CASE("column sums: one chain a block, strides, and what was there stays") {
  // A chain loses each of 32 halves of an ulp of 2^24; two blocks keep the second block's.
  std::vector<float> x(64 * 2, 0.0F);
  x[0] = 16777216.0F;
  for (std::size_t row = 1; row < 64; ++row) x[row * 2] = 1.0F;
  std::vector<float> chain(1, 0.0F), halves(1, 0.0F), started(1, 2.0F);
  add_column_sums(chain.data(), x.data(), 64, 1, 2, 1);
  add_column_sums(halves.data(), x.data(), 64, 1, 2, 2);
  add_column_sums(started.data(), x.data(), 64, 1, 2, 1);
  CHECK(chain[0] == 16777216.0F);
  CHECK(halves[0] == 16777216.0F + 32.0F);
  CHECK(started[0] == 16777218.0F);
}

}  // namespace nqd::engine::cpu

// The mean over time steps: its definition, its gradient, and parts of the rows.
#include "engine/cpu/pooling.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/engine/kernels/kernel_values.h"

namespace nqd::engine::cpu {
namespace {

using namespace nqd::tests;

constexpr PoolingShape kShape{.samples = 3, .steps = 7, .width = 130, .stride = 130};
const std::size_t kSize = index(kShape.samples * kShape.steps * kShape.width);
const std::size_t kMeans = index(kShape.samples * kShape.width);

}  // namespace

TEST_CASE("means over time steps: the definition, and gradients by finite differences") {
  Values x = random_values(kSize, 1);
  const Values d_out = random_values(kMeans, 2);
  Values mean(kMeans), dx(kSize);
  const auto loss = [&] {
    mean_rows(mean.data(), x.data(), kShape);
    return dot(d_out, mean);
  };
  loss();
  for (std::size_t b = 0; b < 3; ++b) {
    for (std::size_t c = 0; c < 130; ++c) {
      double expected = 0;
      for (std::size_t t = 0; t < 7; ++t) expected += x[(b * 7 + t) * 130 + c] / 7;
      REQUIRE(mean[b * 130 + c] == doctest::Approx(expected).epsilon(1e-13));
    }
  }
  mean_rows_backward(dx.data(), d_out.data(), 0, 21, 7, 130);
  check_gradient(x, dx, loss);
}

TEST_CASE("means over time steps have the same bits by ranges of columns and of rows") {
  const auto x = random_stored<float>(kSize, 3);
  std::vector<float> whole(kMeans), parts(kMeans);
  mean_rows(whole.data(), x.data(), kShape);
  for (const std::int64_t begin : {0, 17, 81}) {
    const std::int64_t end = begin == 0 ? 17 : begin == 17 ? 81 : 130;
    mean_rows(parts.data() + begin, x.data() + begin, {3, 7, end - begin, 130});
  }
  CHECK(parts == whole);

  std::vector<float> d_whole(kSize), d_parts(kSize);
  mean_rows_backward(d_whole.data(), whole.data(), 0, 21, 7, 130);
  mean_rows_backward(d_parts.data(), whole.data(), 0, 10, 7, 130);
  mean_rows_backward(d_parts.data() + 10 * 130, whole.data(), 10, 11, 7, 130);
  CHECK(d_parts == d_whole);
}

}  // namespace nqd::engine::cpu

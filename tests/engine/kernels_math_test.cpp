// The float building blocks: error bounds against the standard library, independence of position.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "engine/cpu/activations.h"
#include "engine/cpu/math.h"

namespace nqd::engine::cpu {

namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

double gelu_reference(double x) {
  const double u = std::sqrt(2.0 / 3.14159265358979323846) * (x + 0.044715 * x * x * x);
  return 0.5 * x * (1.0 + std::tanh(u));
}

std::vector<float> test_values(std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = 4.0F * std::sin(0.7F * static_cast<float>(i + 1));
  }
  return values;
}

}  // namespace

TEST_CASE("fast_exp stays within 2e-7 of std::exp over its whole range") {
  double worst = 0;
  for (int i = -86 * 4096; i <= 88 * 4096; ++i) {
    const float x = static_cast<float>(i) / 4096.0F;
    const double exact = std::exp(static_cast<double>(x));
    worst = std::max(worst, std::abs(static_cast<double>(fast_exp(x)) - exact) / exact);
  }
  CHECK(worst < 2e-7);
  CHECK(fast_exp(0.0F) == 1.0F);
}

TEST_CASE("fast_exp saturates outside its range and keeps NaN") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  CHECK(fast_exp(-kInfinity) == fast_exp(-86.0F));
  CHECK(fast_exp(-200.0F) < 1e-37F);
  CHECK(fast_exp(kInfinity) == fast_exp(88.0F));
  CHECK(std::isfinite(fast_exp(1000.0F)));
  CHECK(std::isnan(fast_exp(kNaN)));
}

TEST_CASE("gelu in float stays within 1e-6 of the tanh form in double") {
  for (int i = -12 * 512; i <= 12 * 512; ++i) {
    const float in = static_cast<float>(i) / 512.0F;
    const auto x = static_cast<double>(in);
    float out = 0;
    gelu(&out, &in, 1);
    CHECK(std::abs(static_cast<double>(out) - gelu_reference(x)) <=
          1e-6 * std::max(1.0, std::abs(x)));
  }
}

TEST_CASE("an element's gelu does not depend on its place in the array") {
  const std::vector<float> in = test_values(131);
  std::vector<float> whole(in.size());
  gelu(whole.data(), in.data(), static_cast<std::int64_t>(in.size()));
  std::vector<float> whole_gradient(in.size(), 1.0F);
  gelu_backward(whole_gradient.data(), whole_gradient.data(), in.data(),
                static_cast<std::int64_t>(in.size()));
  for (std::size_t begin = 0; begin < in.size(); ++begin) {
    std::vector<float> part(in.size() - begin);
    gelu(part.data(), in.data() + begin, static_cast<std::int64_t>(part.size()));
    REQUIRE(
        std::equal(part.begin(), part.end(), whole.begin() + static_cast<std::ptrdiff_t>(begin)));
    std::vector<float> gradient(part.size(), 1.0F);
    gelu_backward(gradient.data(), gradient.data(), in.data() + begin,
                  static_cast<std::int64_t>(part.size()));
    REQUIRE(std::equal(gradient.begin(), gradient.end(),
                       whole_gradient.begin() + static_cast<std::ptrdiff_t>(begin)));
  }
}

TEST_CASE("lane_sum adds every element once, in the documented order") {
  for (std::int64_t n : {0, 1, 15, 16, 17, 31, 32, 100}) {
    const std::int64_t expected = n * (n - 1) / 2;
    CHECK(lane_sum<float>(n, [](std::int64_t i) { return static_cast<float>(i); }) ==
          static_cast<float>(expected));
  }
  // 2^24 swallows a 1 added to it, but not the 16 that other lanes collected.
  std::vector<float> x(32, 1.0F);
  x[0] = 16777216.0F;
  CHECK(lane_sum<float>(32, [&](std::int64_t i) { return x[static_cast<std::size_t>(i)]; }) ==
        16777216.0F + 30.0F);
}

TEST_CASE("lane_max finds the maximum wherever it stands") {
  for (std::size_t n : {1U, 16U, 37U}) {
    for (std::size_t at = 0; at < n; ++at) {
      std::vector<float> x(n, -3.0F);
      x[at] = -1.0F;
      CHECK(lane_max(x.data(), static_cast<std::int64_t>(n)) == -1.0F);
    }
  }
}

}  // namespace nqd::engine::cpu

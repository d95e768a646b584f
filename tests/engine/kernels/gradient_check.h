// Gradient checks in double, against central finite differences, and the values that tests use.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

namespace nqd::tests {

using Values = std::vector<double>;

inline Values random_values(std::size_t count, unsigned seed, double scale = 1.0) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<double> uniform(-scale, scale);
  Values values(count);
  for (double& value : values) value = uniform(engine);
  return values;
}

inline double dot(const Values& a, const Values& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// `loss` is a function of `x`, which is changed element by element and restored.
inline void check_gradient(Values& x, const Values& gradient, const std::function<double()>& loss) {
  constexpr double kStep = 1e-5;
  constexpr double kTolerance = 1e-7;
  REQUIRE(x.size() == gradient.size());
  Values numeric(x.size());
  double largest = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double saved = x[i];
    x[i] = saved + kStep;
    const double above = loss();
    x[i] = saved - kStep;
    const double below = loss();
    x[i] = saved;
    numeric[i] = (above - below) / (2 * kStep);
    largest = std::max(largest, std::abs(numeric[i]));
  }
  REQUIRE(largest > 1e-3);
  for (std::size_t i = 0; i < x.size(); ++i) {
    INFO("element ", i, ": analytic ", gradient[i], ", numeric ", numeric[i]);
    CHECK(std::abs(gradient[i] - numeric[i]) <= kTolerance * std::max(1.0, largest));
  }
}

}  // namespace nqd::tests

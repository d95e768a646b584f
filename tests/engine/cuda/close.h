// Tolerances from the epsilon of a storage type.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include "tests/engine/kernels/kernel_values.h"

namespace nqd::tests {

// The distance from 1 to the next number.
template <typename S>
constexpr double epsilon_of() {
  if constexpr (std::is_same_v<S, float>) return 0x1p-23;
  if constexpr (std::is_same_v<S, BFloat16>) return 0x1p-7;
  if constexpr (std::is_same_v<S, Float16>) return 0x1p-10;
  return 0x1p-52;
}

// Each element within `epsilons` of S's epsilon, relative to the larger of 1 and its magnitude.
template <typename S, typename T>
void check_close(const std::vector<T>& actual, const std::vector<T>& expected, double epsilons) {
  const Values a = as_doubles(actual), b = as_doubles(expected);
  REQUIRE(a.size() == b.size());
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    REQUIRE(std::isfinite(a[i]));
    worst = std::max(worst, std::abs(a[i] - b[i]) / std::max(1.0, std::abs(b[i])));
  }
  CHECK(worst <= epsilons * epsilon_of<S>());
}

}  // namespace nqd::tests

// Scalar building blocks of the CPU kernels. All are branch-free sequences of single IEEE
// operations, so that a compiler vectorises a loop over them and an element's bits depend neither
// on its place in the array nor on the vector width.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

namespace nqd::engine::cpu {

// e^x for float: relative error below 2e-7 for x in [-86, 88], the result at the nearer end
// outside, NaN for NaN. Range reduction by multiples of ln 2 in two parts, then the degree-7
// polynomial of Cephes' expf (https://www.netlib.org/cephes/).
inline float fast_exp(float x) {
  constexpr float kLog2E = 1.44269504088896341F;
  constexpr float kLn2High = 0.693359375F;  // few bits: its product with an integer is exact
  constexpr float kLn2Low = -2.12194440e-4F;
  constexpr float kRoundingShift = 12582912.0F;  // 1.5 * 2^23: its addition rounds to an integer

  const float low_clamped = x < -86.0F ? -86.0F : x;
  const float clamped = low_clamped > 88.0F ? 88.0F : low_clamped;
  const float shifted = clamped * kLog2E + kRoundingShift;
  const float multiple = shifted - kRoundingShift;
  const float r = (clamped - multiple * kLn2High) - multiple * kLn2Low;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * (r * r) + r + 1.0F;
  // The low bits of `shifted` hold the integer; moved into the exponent field they are 2^multiple.
  const std::uint32_t exponent = std::bit_cast<std::uint32_t>(shifted) + 127U;
  return p * std::bit_cast<float>(exponent << 23);
}

// The double instantiation of the kernels serves finite-difference checks and needs all digits.
inline double fast_exp(double x) { return std::exp(x); }

// Reductions run in this many independent lanes and merge them in one fixed tree: the order of
// additions is the same for every vector width.
inline constexpr int kLanes = 16;

template <typename T, typename Merge>
T merge_lanes(std::array<T, kLanes>& lanes, Merge merge) {
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int lane = 0; lane < width; ++lane) lanes[lane] = merge(lanes[lane], lanes[lane + width]);
  }
  return lanes[0];
}

// Sum of term(0) … term(n - 1).
template <typename T, typename Term>
T lane_sum(std::int64_t n, Term term) {
  std::array<T, kLanes> lanes{};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += term(i + lane);
  }
  for (int lane = 0; i < n; ++i, ++lane) lanes[lane] += term(i);
  return merge_lanes(lanes, [](T a, T b) { return a + b; });
}

// Maximum of x[0] … x[n - 1], n >= 1. A NaN may be dropped: what follows must meet it again.
template <typename T>
T lane_max(const T* x, std::int64_t n) {
  std::array<T, kLanes> lanes;
  lanes.fill(x[0]);
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      lanes[lane] = x[i + lane] > lanes[lane] ? x[i + lane] : lanes[lane];
    }
  }
  for (int lane = 0; i < n; ++i, ++lane) lanes[lane] = x[i] > lanes[lane] ? x[i] : lanes[lane];
  return merge_lanes(lanes, [](T a, T b) { return a > b ? a : b; });
}

}  // namespace nqd::engine::cpu

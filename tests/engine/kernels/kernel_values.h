// Values in any storage type, and comparisons of bits.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "engine/cpu/storage.h"
#include "tests/engine/kernels/gradient_check.h"

namespace nqd::tests {

template <typename S>
std::vector<S> random_stored(std::size_t count, unsigned seed, double scale = 1.0) {
  std::vector<S> values(count);
  const Values source = random_values(count, seed, scale);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = engine::cpu::narrow<S>(static_cast<engine::cpu::Compute<S>>(source[i]));
  }
  return values;
}

template <typename S>
Values as_doubles(const std::vector<S>& values) {
  Values out;
  for (const S& value : values) out.push_back(static_cast<double>(engine::cpu::widen(value)));
  return out;
}

template <typename S>
bool same_bits(std::span<const S> a, std::span<const S> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}
template <typename S>
bool same_bits(const std::vector<S>& a, const std::vector<S>& b) {
  return same_bits(std::span<const S>(a), std::span<const S>(b));
}

inline double largest_difference(const Values& a, const Values& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

inline std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

}  // namespace nqd::tests

// What an element is stored as and what it is computed in. Kernels read with widen(), compute in
// Compute<S> and round once, with narrow<S>(), when they write. Both are free of branches, so that
// loops over them vectorise, and give the bits of to_float, to_bfloat16 and to_float16.
#pragma once

#include <bit>
#include <cstdint>

#include "base/dtype.h"

namespace nqd::engine::cpu {

// float for float, BFloat16 and Float16; double, which serves finite differences, for itself.
template <typename S>
struct ComputeType {
  using Type = float;
};
template <>
struct ComputeType<double> {
  using Type = double;
};
template <typename S>
using Compute = typename ComputeType<S>::Type;

inline double widen(double value) { return value; }
inline float widen(float value) { return value; }
inline float widen(BFloat16 value) { return to_float(value); }

inline float widen(Float16 value) {
  // The fraction and exponent as those of a float32 are the value times 2^-112, subnormals too.
  const std::uint32_t magnitude = static_cast<std::uint32_t>(value.bits & 0x7fff) << 13;
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x8000) << 16;
  const std::uint32_t finite =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112F);
  const std::uint32_t special = magnitude | 0x7f800000U;
  return std::bit_cast<float>(sign | (magnitude >= 0x0f800000U ? special : finite));
}

template <typename S>
S narrow(Compute<S> value);

template <>
inline double narrow<double>(double value) {
  return value;
}
template <>
inline float narrow<float>(float value) {
  return value;
}

template <>
inline BFloat16 narrow<BFloat16>(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = bits + 0x7fffU + ((bits >> 16) & 1U);
  const std::uint32_t chosen = (bits & 0x7fffffffU) > 0x7f800000U ? bits | 0x400000U : rounded;
  return {static_cast<std::uint16_t>(chosen >> 16)};
}

template <>
inline Float16 narrow<Float16>(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  // Below 2^-14: the steps of 1/2 in float32 are those of the subnormal halves.
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3f000000U;
  const std::uint32_t normal = (magnitude + 0xfffU + ((magnitude >> 13) & 1U) - 0x38000000U) >> 13;
  const std::uint32_t finite = magnitude < 0x38800000U ? subnormal : normal;
  const std::uint32_t large = magnitude > 0x7f800000U ? 0x7e00U : 0x7c00U;
  const std::uint32_t half = magnitude >= 0x477ff000U ? large : finite;  // from 65520 on
  return {static_cast<std::uint16_t>(((bits >> 16) & 0x8000U) | half)};
}

}  // namespace nqd::engine::cpu

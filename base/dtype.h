// Element types: their sizes and names, and the conversions of the half-width floats.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace nqd {

enum class DType : std::uint8_t {
  kFloat32,
  kFloat64,
  kBFloat16,
  kFloat16,
  kInt32,
  kInt64,
  kUInt8,
};

constexpr std::size_t size_bytes(DType type) {
  switch (type) {
    case DType::kFloat32:
      return 4;
    case DType::kFloat64:
      return 8;
    case DType::kBFloat16:
    case DType::kFloat16:
      return 2;
    case DType::kInt32:
      return 4;
    case DType::kInt64:
      return 8;
    case DType::kUInt8:
      return 1;
  }
  return 0;
}

constexpr std::string_view name(DType type) {
  switch (type) {
    case DType::kFloat32:
      return "float32";
    case DType::kFloat64:
      return "float64";
    case DType::kBFloat16:
      return "bfloat16";
    case DType::kFloat16:
      return "float16";
    case DType::kInt32:
      return "int32";
    case DType::kInt64:
      return "int64";
    case DType::kUInt8:
      return "uint8";
  }
  return "?";
}

// Accepts the names above and nccl-tests' short forms ("float", "double", "bf16", "half").
std::optional<DType> parse_dtype(std::string_view text);

// A bfloat16 value is the upper half of a float32.
struct BFloat16 {
  std::uint16_t bits = 0;
};

inline float to_float(BFloat16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

// Rounds to nearest, ties to even; a NaN stays a (quiet) NaN.
inline BFloat16 to_bfloat16(float value) {
  std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return {static_cast<std::uint16_t>((bits >> 16) | 0x40)};
  bits += 0x7fff + ((bits >> 16) & 1);
  return {static_cast<std::uint16_t>(bits >> 16)};
}

// IEEE 754 binary16: 1 sign bit, 5 of exponent, 10 of fraction.
struct Float16 {
  std::uint16_t bits = 0;
};

inline float to_float(Float16 value) {
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x8000) << 16;
  const std::uint32_t exponent = (value.bits >> 10) & 0x1f;
  const std::uint32_t fraction = value.bits & 0x3ff;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign == 0 ? magnitude : -magnitude;
  }
  // The exponents are biased by 15 and by 127; the largest is infinity or NaN in both.
  const std::uint32_t wide = exponent == 0x1f ? 0xff : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

// Rounds to nearest, ties to even; what is too large becomes infinite, a NaN a quiet NaN.
inline Float16 to_float16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000);
  const std::uint32_t magnitude = bits & 0x7fffffff;
  const auto with_sign = [&](std::uint32_t half) {
    return Float16{static_cast<std::uint16_t>(sign | half)};
  };
  if (magnitude > 0x7f800000) return with_sign(0x7e00);
  if (magnitude >= 0x477ff000) return with_sign(0x7c00);  // 65520 and above
  if (magnitude < 0x38800000) {
    // Below 2^-14: the steps of 1/2 in float32 are those of the subnormal halves.
    const float stepped = std::bit_cast<float>(magnitude) + 0.5f;
    return with_sign(std::bit_cast<std::uint32_t>(stepped) - 0x3f000000);
  }
  const std::uint32_t rounded = magnitude + 0xfff + ((magnitude >> 13) & 1);
  return with_sign((rounded - 0x38000000) >> 13);
}

}  // namespace nqd

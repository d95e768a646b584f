// Element types: their sizes and names, and bfloat16 conversion.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace nqd {

enum class DType : std::uint8_t { kFloat32, kFloat64, kBFloat16, kInt32, kInt64, kUInt8 };

constexpr std::size_t size_bytes(DType type) {
  switch (type) {
    case DType::kFloat32:
      return 4;
    case DType::kFloat64:
      return 8;
    case DType::kBFloat16:
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
    case DType::kInt32:
      return "int32";
    case DType::kInt64:
      return "int64";
    case DType::kUInt8:
      return "uint8";
  }
  return "?";
}

// Accepts the names above and nccl-tests' short forms ("float", "double", "bf16").
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

}  // namespace nqd

#include "base/dtype.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace nqd {
namespace {

std::uint16_t rounded(std::uint32_t bits) { return to_bfloat16(std::bit_cast<float>(bits)).bits; }

TEST_CASE("sizes and names round-trip") {
  CHECK(size_bytes(DType::kFloat32) == 4);
  CHECK(size_bytes(DType::kFloat64) == 8);
  CHECK(size_bytes(DType::kBFloat16) == 2);
  CHECK(size_bytes(DType::kInt32) == 4);
  CHECK(size_bytes(DType::kInt64) == 8);
  CHECK(size_bytes(DType::kUInt8) == 1);
  for (const DType type : {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kInt32,
                           DType::kInt64, DType::kUInt8}) {
    CHECK(parse_dtype(name(type)) == type);
  }
  CHECK(parse_dtype("float") == DType::kFloat32);
  CHECK(parse_dtype("double") == DType::kFloat64);
  CHECK(parse_dtype("bf16") == DType::kBFloat16);
  CHECK_FALSE(parse_dtype("quarter"));
  CHECK_FALSE(parse_dtype("Float32"));
  CHECK_FALSE(parse_dtype(""));
}

TEST_CASE("ties round to the even neighbour, everything else to the nearest") {
  CHECK(rounded(0x3f800000) == 0x3f80);  // 1
  CHECK(rounded(0x3f807fff) == 0x3f80);  // just below the middle
  CHECK(rounded(0x3f808000) == 0x3f80);  // tie, even below
  CHECK(rounded(0x3f808001) == 0x3f81);  // just above the middle
  CHECK(rounded(0x3f818000) == 0x3f82);  // tie, even above
  CHECK(rounded(0xbf808000) == 0xbf80);  // the same with the sign set
  CHECK(rounded(0xbf818000) == 0xbf82);
  CHECK(rounded(0x3fffffff) == 0x4000);  // carries into the exponent
}

TEST_CASE("zeros, subnormals, infinities and overflow") {
  CHECK(rounded(0x00000000) == 0x0000);
  CHECK(rounded(0x80000000) == 0x8000);
  CHECK(rounded(0x00000001) == 0x0000);
  CHECK(rounded(0x00010000) == 0x0001);
  CHECK(rounded(0x7f800000) == 0x7f80);
  CHECK(rounded(0xff800000) == 0xff80);
  CHECK(rounded(0x7f7fffff) == 0x7f80);  // the largest float32 is nearer to 2^128
  CHECK(rounded(0x7f7f7fff) == 0x7f7f);
}

TEST_CASE("a NaN stays a quiet NaN, also when its upper mantissa bits are zero") {
  for (const std::uint32_t bits :
       {0x7f800001u, 0x7fc00000u, 0x7fffffffu, 0xff800001u, 0xffffffffu}) {
    const BFloat16 value = {rounded(bits)};
    CHECK(std::isnan(to_float(value)));
    CHECK((value.bits & 0x0040) != 0);
    CHECK((value.bits >> 15) == (bits >> 31));
  }
}

TEST_CASE("every bfloat16 value survives the way through float32") {
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const BFloat16 value{static_cast<std::uint16_t>(bits)};
    const float wide = to_float(value);
    if (std::isnan(wide)) continue;
    REQUIRE(to_bfloat16(wide).bits == bits);
  }
}

TEST_CASE("rounding never lands further away than the other neighbour") {
  for (std::uint32_t bits = 0x3f800000; bits < 0x40000000; bits += 97) {
    const float exact = std::bit_cast<float>(bits);
    const auto below = to_float(BFloat16{static_cast<std::uint16_t>(bits >> 16)});
    const auto above = to_float(BFloat16{static_cast<std::uint16_t>((bits >> 16) + 1)});
    const float chosen = to_float(to_bfloat16(exact));
    REQUIRE(std::abs(chosen - exact) == std::min(exact - below, above - exact));
  }
}

TEST_CASE("every float16 value survives the way through float32") {
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const Float16 half{static_cast<std::uint16_t>(bits)};
    const float wide = to_float(half);
    if (std::isnan(wide)) {
      REQUIRE(std::isnan(to_float(to_float16(wide))));
    } else {
      REQUIRE(to_float16(wide).bits == bits);
    }
  }
  CHECK(to_float(Float16{0x0001}) == 0x1p-24f);
  CHECK(to_float(Float16{0x03ff}) == 1023 * 0x1p-24f);
  CHECK(to_float(Float16{0x3c00}) == 1);
  CHECK(to_float(Float16{0x7bff}) == 65504);
  CHECK(std::isinf(to_float(Float16{0xfc00})));
}

TEST_CASE("float16 rounds to the nearest, a tie to the even neighbour") {
  // Between each finite value and the next: below the middle, the middle, above it.
  for (std::uint16_t low = 0; low < 0x7bff; ++low) {
    const auto high = static_cast<std::uint16_t>(low + 1);
    const float middle = (to_float(Float16{low}) + to_float(Float16{high})) / 2;
    REQUIRE(to_float16(std::nextafter(middle, 0.0f)).bits == low);
    REQUIRE(to_float16(middle).bits == (low % 2 == 0 ? low : high));
    REQUIRE(to_float16(std::nextafter(middle, 1e9f)).bits == high);
    REQUIRE(to_float16(-middle).bits == (0x8000 | (low % 2 == 0 ? low : high)));
  }
  CHECK(to_float16(std::nextafter(65520.0f, 0.0f)).bits == 0x7bff);
  CHECK(to_float16(65520).bits == 0x7c00);
  CHECK(to_float16(std::numeric_limits<float>::infinity()).bits == 0x7c00);
  CHECK(to_float16(0x1p-25f).bits == 0);
}

}  // namespace
}  // namespace nqd

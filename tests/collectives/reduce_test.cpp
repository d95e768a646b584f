#include "collectives/reduce.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/error.h"
#include "collectives/reduce_tree.h"
#include "collectives/stream.h"

namespace nqd::collectives {
namespace {

template <typename T>
T combined(T a, T b, DType type, ReduceOp op) {
  T out{};
  reduce(std::as_writable_bytes(std::span(&out, 1)), std::as_bytes(std::span(&a, 1)),
         std::as_bytes(std::span(&b, 1)), type, op);
  return out;
}

BFloat16 bf16(float value) { return to_bfloat16(value); }

TEST_CASE("bfloat16 sums are rounded to nearest, ties to even") {
  const auto sum = [](float a, float b) {
    return to_float(combined(bf16(a), bf16(b), DType::kBFloat16, ReduceOp::kSum));
  };
  CHECK(sum(256, 1) == 256);  // 257 lies between 256 and 258: the even significand is 256
  CHECK(sum(258, 1) == 260);  // 259 between 258 and 260: the even one is 260
  CHECK(sum(256, 1.5f) == 258);
  CHECK(sum(-256, -1) == -256);
}

TEST_CASE("integers wrap") {
  constexpr std::int32_t kMax = std::numeric_limits<std::int32_t>::max();
  CHECK(combined<std::int32_t>(kMax, 1, DType::kInt32, ReduceOp::kSum) ==
        std::numeric_limits<std::int32_t>::min());
  CHECK(combined<std::int64_t>(std::int64_t{1} << 62, 4, DType::kInt64, ReduceOp::kProd) == 0);
  CHECK(combined<std::uint8_t>(200, 100, DType::kUInt8, ReduceOp::kSum) == 44);
}

TEST_CASE("minimum, maximum and product of every type") {
  CHECK(combined(-2.0f, 3.0f, DType::kFloat32, ReduceOp::kMin) == -2.0f);
  CHECK(combined(-2.0, 3.0, DType::kFloat64, ReduceOp::kMax) == 3.0);
  CHECK(combined(-2.0, 3.0, DType::kFloat64, ReduceOp::kProd) == -6.0);
  CHECK(combined<std::int32_t>(-7, 5, DType::kInt32, ReduceOp::kMin) == -7);
  CHECK(combined<std::uint8_t>(7, 250, DType::kUInt8, ReduceOp::kMax) == 250);
  CHECK(to_float(combined(bf16(-1.5f), bf16(4), DType::kBFloat16, ReduceOp::kProd)) == -6);
}

TEST_CASE("minimum of a NaN and a number is the second operand") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(combined(nan, 1.0f, DType::kFloat32, ReduceOp::kMin) == 1.0f);
  CHECK(std::isnan(combined(1.0f, nan, DType::kFloat32, ReduceOp::kMax)));
}

TEST_CASE("division is correctly rounded") {
  float value = 10;
  divide_by(std::as_writable_bytes(std::span(&value, 1)), DType::kFloat32, 3);
  CHECK(value == 10.0f / 3.0f);
  CHECK(value != 10.0f * (1.0f / 3.0f));
}

TEST_CASE("arguments that do not fit are refused") {
  CHECK_THROWS_AS(check_reduction(8, 8, DType::kInt32, ReduceOp::kAvg), Error);
  CHECK_THROWS_AS(check_reduction(8, 12, DType::kFloat32, ReduceOp::kSum), Error);
  CHECK_THROWS_AS(check_reduction(7, 7, DType::kFloat32, ReduceOp::kSum), Error);
  CHECK_NOTHROW(check_reduction(0, 0, DType::kInt64, ReduceOp::kSum));
}

TEST_CASE("streaming stores leave the same bytes, at any place and length") {
  for (const std::size_t count : {1u, 3u, 17u, 1024u, 5001u}) {
    for (const std::size_t shift : {0u, 1u, 3u}) {
      std::vector<float> a(count);
      std::vector<float> b(count);
      std::vector<float> c(count);
      for (std::size_t i = 0; i < count; ++i) {
        a[i] = 1.0f / static_cast<float>(i + 3);
        b[i] = 1.0f / static_cast<float>(i + 7);
        c[i] = static_cast<float>(i);
      }
      const std::array sources = {std::as_bytes(std::span(a)).data(),
                                  std::as_bytes(std::span(b)).data(),
                                  std::as_bytes(std::span(c)).data()};
      std::vector<float> cached(count + shift + 1, -1.0f);
      std::vector<float> streamed(count + shift + 1, -1.0f);
      const auto reduce_into = [&](std::vector<float>& out, bool streaming) {
        std::byte* const target = std::as_writable_bytes(std::span(out).subspan(shift)).data();
        reduce_tree({&target, 1}, sources, count * sizeof(float), DType::kFloat32, ReduceOp::kSum,
                    streaming ? 1 : 0);
        stream_fence();
      };
      reduce_into(cached, false);
      reduce_into(streamed, true);
      CHECK(cached == streamed);
      CHECK(cached[shift] == (a[0] + b[0]) + c[0]);
      CHECK(streamed.back() == -1.0f);
    }
  }
}

}  // namespace
}  // namespace nqd::collectives

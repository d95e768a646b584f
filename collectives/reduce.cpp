#include "collectives/reduce.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "collectives/reduce_ops.h"

namespace nqd::collectives {
namespace {

template <typename T, typename Op>
void combine(T* out, const T* a, const T* b, std::size_t count, Op op) {
  for (std::size_t i = 0; i < count; ++i) out[i] = op(a[i], b[i]);
}

template <typename Op>
void combine(BFloat16* out, const BFloat16* a, const BFloat16* b, std::size_t count, Op op) {
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = to_bfloat16(op(to_float(a[i]), to_float(b[i])));
  }
}

template <typename T>
void reduce_typed(std::span<std::byte> out, std::span<const std::byte> a,
                  std::span<const std::byte> b, ReduceOp op) {
  T* const to = reinterpret_cast<T*>(out.data());
  const T* const x = reinterpret_cast<const T*>(a.data());
  const T* const y = reinterpret_cast<const T*>(b.data());
  const std::size_t count = out.size() / sizeof(T);
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg:
      return combine(to, x, y, count, Add{});
    case ReduceOp::kProd:
      return combine(to, x, y, count, Multiply{});
    case ReduceOp::kMin:
      return combine(to, x, y, count, Minimum{});
    case ReduceOp::kMax:
      return combine(to, x, y, count, Maximum{});
  }
}

bool is_floating(DType type) {
  return type == DType::kFloat32 || type == DType::kFloat64 || type == DType::kBFloat16;
}

template <typename T>
void divide_typed(std::span<std::byte> data, int divisor) {
  T* const values = reinterpret_cast<T*>(data.data());
  for (std::size_t i = 0; i < data.size() / sizeof(T); ++i) values[i] /= static_cast<T>(divisor);
}

void divide_bfloat16(std::span<std::byte> data, int divisor) {
  auto* const values = reinterpret_cast<BFloat16*>(data.data());
  for (std::size_t i = 0; i < data.size() / sizeof(BFloat16); ++i) {
    values[i] = to_bfloat16(to_float(values[i]) / static_cast<float>(divisor));
  }
}

}  // namespace

void reduce(std::span<std::byte> out, std::span<const std::byte> a, std::span<const std::byte> b,
            DType type, ReduceOp op) {
  switch (type) {
    case DType::kFloat32:
      return reduce_typed<float>(out, a, b, op);
    case DType::kFloat64:
      return reduce_typed<double>(out, a, b, op);
    case DType::kBFloat16:
      return reduce_typed<BFloat16>(out, a, b, op);
    case DType::kInt32:
      return reduce_typed<std::int32_t>(out, a, b, op);
    case DType::kInt64:
      return reduce_typed<std::int64_t>(out, a, b, op);
    case DType::kUInt8:
      return reduce_typed<std::uint8_t>(out, a, b, op);
  }
}

void divide_by(std::span<std::byte> data, DType type, int divisor) {
  if (type == DType::kFloat32) divide_typed<float>(data, divisor);
  if (type == DType::kFloat64) divide_typed<double>(data, divisor);
  if (type == DType::kBFloat16) divide_bfloat16(data, divisor);
}

void check_reduction(std::size_t in_bytes, std::size_t out_bytes, DType type, ReduceOp op) {
  if (op == ReduceOp::kAvg && !is_floating(type)) {
    throw Error(ExitCode::kUsage, "NQD2103",
                "avg of " + std::string(name(type)) + " would not be a whole number",
                "use sum and divide, or a floating type");
  }
  if (in_bytes != out_bytes || in_bytes % size_bytes(type) != 0) {
    throw Error(ExitCode::kUsage, "NQD2103",
                "a reduction of " + std::to_string(in_bytes) + " bytes into " +
                    std::to_string(out_bytes) + " bytes of " + std::string(name(type)),
                "give input and output the same whole number of elements");
  }
}

}  // namespace nqd::collectives

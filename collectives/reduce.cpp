#include "collectives/reduce.h"

#include <cstdint>
#include <string>
#include <type_traits>

#include "base/error.h"
#include "collectives/reduce_ops.h"

namespace nqd::collectives {
namespace {

template <typename T, typename Op>
void combine(T* out, const T* a, const T* b, std::size_t count, Op op) {
  using Widen = AccumulateIn<T>;
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = Widen::narrow(op(Widen::widen(a[i]), Widen::widen(b[i])));
  }
}

bool is_floating(DType type) {
  return type != DType::kInt32 && type != DType::kInt64 && type != DType::kUInt8;
}

}  // namespace

void reduce(std::span<std::byte> out, std::span<const std::byte> a, std::span<const std::byte> b,
            DType type, ReduceOp op) {
  visit_type(type, [&]<typename T>(T) {
    visit_op(op, [&](auto operation) {
      combine(reinterpret_cast<T*>(out.data()), reinterpret_cast<const T*>(a.data()),
              reinterpret_cast<const T*>(b.data()), out.size() / sizeof(T), operation);
    });
  });
}

void divide_by(std::span<std::byte> data, DType type, int divisor) {
  visit_type(type, [&]<typename T>(T) {
    using Widen = AccumulateIn<T>;
    if constexpr (std::is_floating_point_v<typename Widen::Type>) {
      const auto by = static_cast<typename Widen::Type>(divisor);
      auto* const values = reinterpret_cast<T*>(data.data());
      for (std::size_t i = 0; i < data.size() / sizeof(T); ++i) {
        values[i] = Widen::narrow(Widen::widen(values[i]) / by);
      }
    }
  });
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

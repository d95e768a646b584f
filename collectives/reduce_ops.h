// The operators of a reduction on one pair of elements, and the type in which each element type is
// accumulated.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/dtype.h"
#include "collectives/types.h"

namespace nqd::collectives {

// Signed overflow wraps: the arithmetic is that of the unsigned type.
template <typename T>
using Wrapping = typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>,
                                             std::type_identity<T>>::type;

struct Add {
  template <typename T>
  T operator()(T a, T b) const {
    using U = Wrapping<T>;
    return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
  }
};
struct Multiply {
  template <typename T>
  T operator()(T a, T b) const {
    using U = Wrapping<T>;
    return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
  }
};
// Minimum and maximum keep `b` when `a` is a NaN.
struct Minimum {
  template <typename T>
  T operator()(T a, T b) const {
    return a < b ? a : b;
  }
};
struct Maximum {
  template <typename T>
  T operator()(T a, T b) const {
    return a > b ? a : b;
  }
};

// Half-width floats are accumulated in float32.
template <typename T>
struct AccumulateIn {
  using Type = T;
  static T widen(T value) { return value; }
  static T narrow(T value) { return value; }
};
template <>
struct AccumulateIn<BFloat16> {
  using Type = float;
  static float widen(BFloat16 value) { return to_float(value); }
  static BFloat16 narrow(float value) { return to_bfloat16(value); }
};
template <>
struct AccumulateIn<Float16> {
  using Type = float;
  static float widen(Float16 value) { return to_float(value); }
  static Float16 narrow(float value) { return to_float16(value); }
};

// Calls `visit` with a value of the type that `type` names.
template <typename Visitor>
decltype(auto) visit_type(DType type, const Visitor& visit) {
  switch (type) {
    case DType::kFloat32:
      return visit(float{});
    case DType::kFloat64:
      return visit(double{});
    case DType::kBFloat16:
      return visit(BFloat16{});
    case DType::kFloat16:
      return visit(Float16{});
    case DType::kInt32:
      return visit(std::int32_t{});
    case DType::kInt64:
      return visit(std::int64_t{});
    case DType::kUInt8:
      break;
  }
  return visit(std::uint8_t{});
}

// Calls `visit` with the operator that `op` names; kAvg adds.
template <typename Visitor>
decltype(auto) visit_op(ReduceOp op, const Visitor& visit) {
  switch (op) {
    case ReduceOp::kProd:
      return visit(Multiply{});
    case ReduceOp::kMin:
      return visit(Minimum{});
    case ReduceOp::kMax:
      return visit(Maximum{});
    case ReduceOp::kSum:
    case ReduceOp::kAvg:
      break;
  }
  return visit(Add{});
}

}  // namespace nqd::collectives

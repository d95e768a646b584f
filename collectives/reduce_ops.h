// The operators of a reduction on one pair of elements, and the type in which each element type is
// accumulated.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/dtype.h"

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

}  // namespace nqd::collectives

// GELU in the tanh form of GPT-2: x/2 · (1 + tanh(u)), u = √(2/π) · (x + 0.044715 x³), computed as
// x · s with s = 1 / (1 + e^(-2u)), which is the same function.
#pragma once

#include <cstdint>

#include "engine/cpu/math.h"

namespace nqd::engine::cpu {

inline constexpr double kGeluTwiceScale = 2 * 0.79788456080286535588;  // 2 · √(2/π)
inline constexpr double kGeluCubic = 0.044715;

template <typename T>
inline T gelu_sigmoid(T x) {
  const T twice_u = static_cast<T>(kGeluTwiceScale) * (x + static_cast<T>(kGeluCubic) * x * x * x);
  return T(1) / (T(1) + fast_exp(-twice_u));
}

}  // namespace nqd::engine::cpu

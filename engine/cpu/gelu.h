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

template <typename T>
void gelu_forward(T* out, const T* in, std::int64_t n) {
  const T* __restrict x = in;
  T* __restrict y = out;
  for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] * gelu_sigmoid(x[i]);
}

// d_inout holds dy on entry and dx on return.
template <typename T>
void gelu_backward_in_place(T* d_inout, const T* in, std::int64_t n) {
  const T* __restrict x = in;
  T* __restrict d = d_inout;
  for (std::int64_t i = 0; i < n; ++i) {
    const T s = gelu_sigmoid(x[i]);
    const T slope =
        static_cast<T>(kGeluTwiceScale) * (T(1) + static_cast<T>(3 * kGeluCubic) * x[i] * x[i]);
    d[i] *= s + x[i] * s * (T(1) - s) * slope;
  }
}

extern template void gelu_forward<float>(float*, const float*, std::int64_t);
extern template void gelu_backward_in_place<float>(float*, const float*, std::int64_t);

}  // namespace nqd::engine::cpu

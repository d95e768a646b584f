// Layer normalisation over the last dimension, epsilon 1e-5 inside the square root.
#pragma once

#include <cmath>
#include <cstdint>

#include "engine/cpu/math.h"

namespace nqd::engine::cpu {

inline constexpr double kLayerNormEpsilon = 1e-5;

// y = (x - mean) · rstd · weight + bias by row; mean and rstd [rows] are kept for backward.
template <typename T>
void layernorm_forward(T* out, T* mean, T* rstd, const T* in, const T* weight, const T* bias,
                       std::int64_t rows, std::int64_t width) {
  const T inverse_width = T(1) / static_cast<T>(width);
  for (std::int64_t row = 0; row < rows; ++row) {
    const T* __restrict x = in + row * width;
    T* __restrict y = out + row * width;
    const T m = inverse_width * lane_sum<T>(width, [x](std::int64_t i) { return x[i]; });
    const T variance = inverse_width * lane_sum<T>(width, [x, m](std::int64_t i) {
                         return (x[i] - m) * (x[i] - m);
                       });
    const T r = T(1) / std::sqrt(variance + static_cast<T>(kLayerNormEpsilon));
    for (std::int64_t i = 0; i < width; ++i) y[i] = (x[i] - m) * r * weight[i] + bias[i];
    mean[row] = m;
    rstd[row] = r;
  }
}

// Adds into d_in, d_weight and d_bias. With g = dy · weight and z = (x - mean) · rstd:
// dx = rstd · (g - average(g) - z · average(g · z)); dweight = sum of dy · z; dbias = sum of dy.
template <typename T>
void layernorm_backward(T* d_in, T* d_weight, T* d_bias, const T* d_out, const T* in,
                        const T* weight, const T* mean, const T* rstd, std::int64_t rows,
                        std::int64_t width) {
  const T inverse_width = T(1) / static_cast<T>(width);
  for (std::int64_t row = 0; row < rows; ++row) {
    const T* __restrict x = in + row * width;
    const T* __restrict dy = d_out + row * width;
    T* __restrict dx = d_in + row * width;
    const T* __restrict w = weight;
    T* __restrict dw = d_weight;
    T* __restrict db = d_bias;
    const T m = mean[row];
    const T r = rstd[row];
    const T g_average =
        inverse_width * lane_sum<T>(width, [=](std::int64_t i) { return dy[i] * w[i]; });
    const T gz_average = inverse_width * lane_sum<T>(width, [=](std::int64_t i) {
                           return dy[i] * w[i] * ((x[i] - m) * r);
                         });
    for (std::int64_t i = 0; i < width; ++i) {
      const T z = (x[i] - m) * r;
      dx[i] += r * (dy[i] * w[i] - g_average - z * gz_average);
      dw[i] += dy[i] * z;
      db[i] += dy[i];
    }
  }
}

extern template void layernorm_forward<float>(float*, float*, float*, const float*, const float*,
                                              const float*, std::int64_t, std::int64_t);
extern template void layernorm_backward<float>(float*, float*, float*, const float*, const float*,
                                               const float*, const float*, const float*,
                                               std::int64_t, std::int64_t);

}  // namespace nqd::engine::cpu

// Linear layers with weights stored [out_width, in_width].
#pragma once

#include <cstdint>

#include "engine/cpu/product.h"

namespace nqd::engine::cpu {

// out [rows, out_width] = in [rows, in_width] · weightᵀ, plus bias [out_width] and residual
// [rows, out_width] where they are not null (a residual needs a bias).
template <typename T>
void linear_forward(T* out, const T* in, const T* weight, const T* bias, const T* residual,
                    std::int64_t rows, std::int64_t in_width, std::int64_t out_width) {
  // The product accumulates onto the bias: that costs no more than the zeroing it replaces.
  for (std::int64_t row = 0; bias != nullptr && row < rows; ++row) {
    T* __restrict y = out + row * out_width;
    if (residual == nullptr) {
      for (std::int64_t i = 0; i < out_width; ++i) y[i] = bias[i];
    } else {
      const T* __restrict x = residual + row * out_width;
      for (std::int64_t i = 0; i < out_width; ++i) y[i] = x[i] + bias[i];
    }
  }
  Product<T>::run(rows, out_width, in_width, T(1), {in, in_width},
                  {weight, in_width, Transpose::kYes}, bias == nullptr ? T(0) : T(1), out,
                  out_width);
}

// Adds d_outᵀ · in into d_weight and the column sums of d_out into d_bias (where not null), and
// overwrites d_in with d_out · weight.
template <typename T>
void linear_backward(T* d_in, T* d_weight, T* d_bias, const T* d_out, const T* in, const T* weight,
                     std::int64_t rows, std::int64_t in_width, std::int64_t out_width) {
  Product<T>::run(out_width, in_width, rows, T(1), {d_out, out_width, Transpose::kYes},
                  {in, in_width}, T(1), d_weight, in_width);
  for (std::int64_t row = 0; d_bias != nullptr && row < rows; ++row) {
    const T* __restrict dy = d_out + row * out_width;
    T* __restrict db = d_bias;
    for (std::int64_t i = 0; i < out_width; ++i) db[i] += dy[i];
  }
  Product<T>::run(rows, in_width, out_width, T(1), {d_out, out_width}, {weight, in_width}, T(0),
                  d_in, in_width);
}

extern template void linear_forward<float>(float*, const float*, const float*, const float*,
                                           const float*, std::int64_t, std::int64_t, std::int64_t);
extern template void linear_backward<float>(float*, float*, float*, const float*, const float*,
                                            const float*, std::int64_t, std::int64_t, std::int64_t);

}  // namespace nqd::engine::cpu

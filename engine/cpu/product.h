// The matrix product that the kernels call, by element type: float goes through the gemm() seam.
// The double form is defined by the tests that check gradients by finite differences.
#pragma once

#include <cstdint>

#include "engine/gemm/gemm.h"

namespace nqd::engine::cpu {

// A stored matrix: `data[row * stride + column]`, used transposed when `transpose` is kYes.
template <typename T>
struct Operand {
  const T* data;
  std::int64_t stride;
  Transpose transpose = Transpose::kNo;
};

// C[m,n] = alpha · op(A)[m,k] · op(B)[k,n] + beta · C, beta 0 or 1.
template <typename T>
struct Product;

template <>
struct Product<float> {
  static void run(std::int64_t m, std::int64_t n, std::int64_t k, float alpha,
                  const Operand<float>& a, const Operand<float>& b, float beta, float* c,
                  std::int64_t c_stride) {
    gemm(a.transpose, b.transpose, m, n, k, alpha, a.data, a.stride, b.data, b.stride, beta, c,
         c_stride);
  }
};

}  // namespace nqd::engine::cpu

// Gradient checks of the CPU kernels in double, against central finite differences.
#pragma once

#include <cstdint>

#include "engine/cpu/product.h"
#include "tests/engine/kernels/gradient_check.h"

namespace nqd::engine::cpu {

// The plain triple loop that stands in for the product seam in double.
template <>
struct Product<double> {
  static void run(std::int64_t m, std::int64_t n, std::int64_t k, double alpha,
                  const Operand<double>& a, const Operand<double>& b, double beta, double* c,
                  std::int64_t c_stride) {
    const auto at = [](const Operand<double>& x, std::int64_t row, std::int64_t column) {
      return x.transpose == Transpose::kYes ? x.data[column * x.stride + row]
                                            : x.data[row * x.stride + column];
    };
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (std::int64_t l = 0; l < k; ++l) sum += at(a, i, l) * at(b, l, j);
        double& out = c[i * c_stride + j];
        out = alpha * sum + (beta == 0 ? 0 : beta * out);
      }
    }
  }
};

}  // namespace nqd::engine::cpu

// Layer and root-mean-square normalisation of rows, and sums of columns.
//
// Rows are [rows, width], contiguous. A pointer `gradient` of type Compute<S> is added to. How the
// gradients of weights sum over rows in `blocks` blocks: engine/cpu/row_sums.h; 1 is one ascending
// chain. Each row's result depends on that row alone.
#pragma once

#include <cstdint>

#include "engine/cpu/storage.h"

namespace nqd::engine::cpu {

struct NormShape {
  std::int64_t rows = 0;
  std::int64_t width = 0;
  double epsilon = 1e-5;    // inside the square root
  std::int64_t stride = 0;  // of rows, where backward_weight does some columns; 0: width

  std::int64_t row_stride() const { return stride == 0 ? width : stride; }
};

// y = (x − mean) · rstd · weight + bias; mean and rstd [rows] are kept for backward.
template <typename S>
void layer_norm_forward(S* y, Compute<S>* mean, Compute<S>* rstd, const S* x, const S* weight,
                        const S* bias, const NormShape& shape);

// dx = residual + rstd · (g − average(g) − z · average(g · z)), g = dy · weight,
// z = (x − mean) · rstd. `residual`, the gradient that flows past the norm, may be dx, or null for
// none. dx may be dy.
template <typename S>
void layer_norm_backward_input(S* dx, const S* residual, const S* dy, const S* x, const S* weight,
                               const Compute<S>* mean, const Compute<S>* rstd,
                               const NormShape& shape);

// Adds the sums over rows of dy · z and of dy.
template <typename S>
void layer_norm_backward_weight(Compute<S>* weight_gradient, Compute<S>* bias_gradient, const S* dy,
                                const S* x, const Compute<S>* mean, const Compute<S>* rstd,
                                const NormShape& shape, std::int64_t blocks);

// y = x · rstd · weight, rstd = 1 / √(average(x²) + epsilon) (Zhang & Sennrich 2019).
template <typename S>
void rms_norm_forward(S* y, Compute<S>* rstd, const S* x, const S* weight, const NormShape& shape);

// dx = residual + rstd · (g − z · average(g · z)), z = x · rstd; arguments as above.
template <typename S>
void rms_norm_backward_input(S* dx, const S* residual, const S* dy, const S* x, const S* weight,
                             const Compute<S>* rstd, const NormShape& shape);

template <typename S>
void rms_norm_backward_weight(Compute<S>* weight_gradient, const S* dy, const S* x,
                              const Compute<S>* rstd, const NormShape& shape, std::int64_t blocks);

// Adds the sum over rows of x [rows, width], whose rows are `stride` elements apart: the gradient
// of a bias.
template <typename S>
void add_column_sums(Compute<S>* gradient, const S* x, std::int64_t rows, std::int64_t width,
                     std::int64_t stride, std::int64_t blocks);

}  // namespace nqd::engine::cpu

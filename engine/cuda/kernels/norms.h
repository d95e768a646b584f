// engine/cpu/norms.h on a device: the same arguments, after the stream that they run on. Pointers
// are of device memory. S is float, BFloat16 or Float16.
#pragma once

#include <cstdint>

#include "engine/cpu/norms.h"
#include "engine/cuda/handles.h"

namespace nqd::engine::cuda {

// Floats of scratch that the sums over `rows` rows in `blocks` canonical blocks need: of
// add_column_sums and rms_norm_backward_weight with sums = 1, of layer_norm_backward_weight with 2.
std::int64_t column_sums_scratch(int sums, std::int64_t rows, std::int64_t width,
                                 std::int64_t blocks);

template <typename S>
void layer_norm_forward(StreamHandle stream, S* y, float* mean, float* rstd, const S* x,
                        const S* weight, const S* bias, const cpu::NormShape& shape);
template <typename S>
void layer_norm_backward_input(StreamHandle stream, S* dx, const S* residual, const S* dy,
                               const S* x, const S* weight, const float* mean, const float* rstd,
                               const cpu::NormShape& shape);
template <typename S>
void layer_norm_backward_weight(StreamHandle stream, float* weight_gradient, float* bias_gradient,
                                const S* dy, const S* x, const float* mean, const float* rstd,
                                const cpu::NormShape& shape, std::int64_t blocks, float* scratch);

template <typename S>
void rms_norm_forward(StreamHandle stream, S* y, float* rstd, const S* x, const S* weight,
                      const cpu::NormShape& shape);
template <typename S>
void rms_norm_backward_input(StreamHandle stream, S* dx, const S* residual, const S* dy, const S* x,
                             const S* weight, const float* rstd, const cpu::NormShape& shape);
template <typename S>
void rms_norm_backward_weight(StreamHandle stream, float* weight_gradient, const S* dy, const S* x,
                              const float* rstd, const cpu::NormShape& shape, std::int64_t blocks,
                              float* scratch);

template <typename S>
void add_column_sums(StreamHandle stream, float* gradient, const S* x, std::int64_t rows,
                     std::int64_t width, std::int64_t stride, std::int64_t blocks, float* scratch);

}  // namespace nqd::engine::cuda

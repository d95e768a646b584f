#include "engine/cuda/kernels/norms.h"

#include "engine/cuda/kernels/bodies/norms.h"
#include "engine/cuda/kernels/launch.cuh"

namespace nqd::engine::cuda {

std::int64_t column_sums_scratch(int sums, std::int64_t rows, std::int64_t width,
                                 std::int64_t blocks) {
  return bodies::row_chunks(rows, blocks).chunks() * sums * width;
}

template <typename S>
void layer_norm_forward(StreamHandle stream, S* y, float* mean, float* rstd, const S* x,
                        const S* weight, const S* bias, const cpu::NormShape& shape) {
  bodies::norm_forward<true>(Launch(stream), y, mean, rstd, x, weight, bias, shape);
}
template <typename S>
void layer_norm_backward_input(StreamHandle stream, S* dx, const S* residual, const S* dy,
                               const S* x, const S* weight, const float* mean, const float* rstd,
                               const cpu::NormShape& shape) {
  bodies::norm_backward_input<true>(Launch(stream), dx, residual, dy, x, weight, mean, rstd, shape);
}
template <typename S>
void layer_norm_backward_weight(StreamHandle stream, float* weight_gradient, float* bias_gradient,
                                const S* dy, const S* x, const float* mean, const float* rstd,
                                const cpu::NormShape& shape, std::int64_t blocks, float* scratch) {
  bodies::norm_backward_weight<true>(Launch(stream), {{weight_gradient, bias_gradient}}, dy, x,
                                     mean, rstd, shape, blocks, scratch);
}

template <typename S>
void rms_norm_forward(StreamHandle stream, S* y, float* rstd, const S* x, const S* weight,
                      const cpu::NormShape& shape) {
  bodies::norm_forward<false, S>(Launch(stream), y, nullptr, rstd, x, weight, nullptr, shape);
}
template <typename S>
void rms_norm_backward_input(StreamHandle stream, S* dx, const S* residual, const S* dy, const S* x,
                             const S* weight, const float* rstd, const cpu::NormShape& shape) {
  bodies::norm_backward_input<false>(Launch(stream), dx, residual, dy, x, weight, nullptr, rstd,
                                     shape);
}
template <typename S>
void rms_norm_backward_weight(StreamHandle stream, float* weight_gradient, const S* dy, const S* x,
                              const float* rstd, const cpu::NormShape& shape, std::int64_t blocks,
                              float* scratch) {
  bodies::norm_backward_weight<false>(Launch(stream), {{weight_gradient}}, dy, x, nullptr, rstd,
                                      shape, blocks, scratch);
}

template <typename S>
void add_column_sums(StreamHandle stream, float* gradient, const S* x, std::int64_t rows,
                     std::int64_t width, std::int64_t stride, std::int64_t blocks, float* scratch) {
  bodies::add_column_sums(Launch(stream), gradient, x, rows, width, stride, blocks, scratch);
}

#define NQD_INSTANTIATE(S)                                                                       \
  template void layer_norm_forward<S>(StreamHandle, S*, float*, float*, const S*, const S*,      \
                                      const S*, const cpu::NormShape&);                          \
  template void layer_norm_backward_input<S>(StreamHandle, S*, const S*, const S*, const S*,     \
                                             const S*, const float*, const float*,               \
                                             const cpu::NormShape&);                             \
  template void layer_norm_backward_weight<S>(StreamHandle, float*, float*, const S*, const S*,  \
                                              const float*, const float*, const cpu::NormShape&, \
                                              std::int64_t, float*);                             \
  template void rms_norm_forward<S>(StreamHandle, S*, float*, const S*, const S*,                \
                                    const cpu::NormShape&);                                      \
  template void rms_norm_backward_input<S>(StreamHandle, S*, const S*, const S*, const S*,       \
                                           const S*, const float*, const cpu::NormShape&);       \
  template void rms_norm_backward_weight<S>(StreamHandle, float*, const S*, const S*,            \
                                            const float*, const cpu::NormShape&, std::int64_t,   \
                                            float*);                                             \
  template void add_column_sums<S>(StreamHandle, float*, const S*, std::int64_t, std::int64_t,   \
                                   std::int64_t, std::int64_t, float*)

NQD_INSTANTIATE(float);
NQD_INSTANTIATE(BFloat16);
NQD_INSTANTIATE(Float16);

}  // namespace nqd::engine::cuda

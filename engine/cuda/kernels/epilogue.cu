#include "engine/cuda/kernels/epilogue.h"

#include "engine/cuda/kernels/bodies/epilogue.h"
#include "engine/cuda/kernels/launch.cuh"

namespace nqd::engine::cuda {

template <typename S>
void apply_dropout(StreamHandle stream, S* y, const S* x, const cpu::Dropout& dropout,
                   std::int64_t first, std::int64_t n) {
  bodies::apply_dropout(Launch(stream), y, x, dropout, first, n);
}
template <typename S>
void bias_dropout_residual(StreamHandle stream, S* out, const float* product, const S* bias,
                           const S* residual, std::int64_t rows, std::int64_t width,
                           const cpu::Dropout* dropout, std::int64_t first_row) {
  bodies::bias_dropout_residual(Launch(stream), out, product, bias, residual, rows, width, dropout,
                                first_row);
}

#define NQD_INSTANTIATE(S)                                                                      \
  template void apply_dropout<S>(StreamHandle, S*, const S*, const cpu::Dropout&, std::int64_t, \
                                 std::int64_t);                                                 \
  template void bias_dropout_residual<S>(StreamHandle, S*, const float*, const S*, const S*,    \
                                         std::int64_t, std::int64_t, const cpu::Dropout*,       \
                                         std::int64_t)

NQD_INSTANTIATE(float);
NQD_INSTANTIATE(BFloat16);
NQD_INSTANTIATE(Float16);

}  // namespace nqd::engine::cuda

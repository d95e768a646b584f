#include "engine/cuda/kernels/pooling.h"

#include "engine/cuda/kernels/bodies/pooling.h"
#include "engine/cuda/kernels/launch.cuh"

namespace nqd::engine::cuda {

template <typename S>
void mean_rows(StreamHandle stream, S* out, const S* in, const cpu::PoolingShape& shape) {
  bodies::mean_rows(Launch(stream), out, in, shape);
}
void mean_rows_backward(StreamHandle stream, float* d_in, const float* d_out,
                        std::int64_t first_row, std::int64_t rows, std::int64_t steps,
                        std::int64_t width) {
  bodies::mean_rows_backward(Launch(stream), d_in, d_out, first_row, rows, steps, width);
}
template <typename S>
void spread_row(StreamHandle stream, S* out, std::int64_t stride, const S* row, std::int64_t rows,
                std::int64_t width) {
  bodies::spread_row(Launch(stream), out, stride, row, rows, width);
}
template <typename S>
void spread_widened_row(StreamHandle stream, float* out, std::int64_t stride, const S* row,
                        std::int64_t rows, std::int64_t width) {
  bodies::spread_row(Launch(stream), out, stride, row, rows, width);
}

template void spread_widened_row<BFloat16>(StreamHandle, float*, std::int64_t, const BFloat16*,
                                           std::int64_t, std::int64_t);
template void spread_widened_row<Float16>(StreamHandle, float*, std::int64_t, const Float16*,
                                          std::int64_t, std::int64_t);

#define NQD_INSTANTIATE(S)                                                          \
  template void mean_rows<S>(StreamHandle, S*, const S*, const cpu::PoolingShape&); \
  template void spread_row<S>(StreamHandle, S*, std::int64_t, const S*, std::int64_t, std::int64_t)

NQD_INSTANTIATE(float);
NQD_INSTANTIATE(BFloat16);
NQD_INSTANTIATE(Float16);

}  // namespace nqd::engine::cuda

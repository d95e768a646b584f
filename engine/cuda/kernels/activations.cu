#include "engine/cuda/kernels/activations.h"

#include "engine/cuda/kernels/bodies/activations.h"
#include "engine/cuda/kernels/launch.cuh"

namespace nqd::engine::cuda {

template <typename S>
void gelu(StreamHandle stream, S* y, const S* x, std::int64_t n) {
  bodies::gelu(Launch(stream), y, x, n);
}
template <typename S>
void gelu_backward(StreamHandle stream, S* dx, const S* dy, const S* x, std::int64_t n) {
  bodies::gelu_backward(Launch(stream), dx, dy, x, n);
}
template <typename S>
void swiglu(StreamHandle stream, S* y, const S* x, std::int64_t rows, std::int64_t width) {
  bodies::swiglu(Launch(stream), y, x, rows, width);
}
template <typename S>
void swiglu_backward(StreamHandle stream, S* dx, const S* dy, const S* x, std::int64_t rows,
                     std::int64_t width) {
  bodies::swiglu_backward(Launch(stream), dx, dy, x, rows, width);
}

#define NQD_INSTANTIATE(S)                                                            \
  template void gelu<S>(StreamHandle, S*, const S*, std::int64_t);                    \
  template void gelu_backward<S>(StreamHandle, S*, const S*, const S*, std::int64_t); \
  template void swiglu<S>(StreamHandle, S*, const S*, std::int64_t, std::int64_t);    \
  template void swiglu_backward<S>(StreamHandle, S*, const S*, const S*, std::int64_t, std::int64_t)

NQD_INSTANTIATE(float);
NQD_INSTANTIATE(BFloat16);
NQD_INSTANTIATE(Float16);

}  // namespace nqd::engine::cuda

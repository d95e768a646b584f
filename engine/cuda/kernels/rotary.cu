#include "engine/cuda/kernels/rotary.h"

#include "engine/cuda/kernels/bodies/rotary.h"
#include "engine/cuda/kernels/launch.cuh"

namespace nqd::engine::cuda {

template <typename S>
void rotary_forward(StreamHandle stream, S* x, const float* cosines, const float* sines,
                    const cpu::RotaryShape& shape) {
  bodies::rotate(Launch(stream), x, cosines, sines, shape, 1);
}
template <typename S>
void rotary_backward(StreamHandle stream, S* d, const float* cosines, const float* sines,
                     const cpu::RotaryShape& shape) {
  bodies::rotate(Launch(stream), d, cosines, sines, shape, -1);
}

#define NQD_INSTANTIATE(S)                                                       \
  template void rotary_forward<S>(StreamHandle, S*, const float*, const float*,  \
                                  const cpu::RotaryShape&);                      \
  template void rotary_backward<S>(StreamHandle, S*, const float*, const float*, \
                                   const cpu::RotaryShape&)

NQD_INSTANTIATE(float);
NQD_INSTANTIATE(BFloat16);
NQD_INSTANTIATE(Float16);

}  // namespace nqd::engine::cuda

#include "engine/cuda/kernels/attention.h"
#include "engine/cuda/kernels/bodies/attention.h"
#include "engine/cuda/kernels/launch.cuh"

namespace nqd::engine::cuda {

template <typename S>
void attention_forward(StreamHandle stream, S* out, float* lse, const S* q, const S* k, const S* v,
                       const cpu::AttentionLayout& layout, const cpu::AttentionDropout* dropout) {
  bodies::attention_forward(Launch(stream), out, lse, q, k, v, layout, dropout);
}

#define NQD_INSTANTIATE(S)                                                                   \
  template void attention_forward<S>(StreamHandle, S*, float*, const S*, const S*, const S*, \
                                     const cpu::AttentionLayout&, const cpu::AttentionDropout*)

NQD_INSTANTIATE(float);
NQD_INSTANTIATE(BFloat16);
NQD_INSTANTIATE(Float16);

}  // namespace nqd::engine::cuda

#include "engine/cuda/kernels/attention.h"
#include "engine/cuda/kernels/bodies/attention.h"
#include "engine/cuda/kernels/launch.cuh"

namespace nqd::engine::cuda {

std::int64_t attention_backward_scratch(const cpu::AttentionLayout& layout) {
  return layout.batch * layout.heads * layout.sequence;
}

template <typename S>
void attention_backward(StreamHandle stream, S* dq, S* dk, S* dv, const S* d_out, const S* out,
                        const float* lse, const S* q, const S* k, const S* v,
                        const cpu::AttentionLayout& layout, const cpu::AttentionDropout* dropout,
                        float* scratch) {
  bodies::attention_backward(Launch(stream), dq, dk, dv, d_out, out, lse, q, k, v, layout, dropout,
                             scratch);
}

#define NQD_INSTANTIATE(S)                                                                        \
  template void attention_backward<S>(StreamHandle, S*, S*, S*, const S*, const S*, const float*, \
                                      const S*, const S*, const S*, const cpu::AttentionLayout&,  \
                                      const cpu::AttentionDropout*, float*)

NQD_INSTANTIATE(float);
NQD_INSTANTIATE(BFloat16);
NQD_INSTANTIATE(Float16);

}  // namespace nqd::engine::cuda

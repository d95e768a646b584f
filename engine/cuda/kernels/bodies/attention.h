// Which kernels compute attention: 16-bit storage and heads of up to 128 columns take the tensor
// cores, everything else the reference.
#pragma once

#include <type_traits>

#include "engine/cuda/kernels/bodies/attention_backward.h"
#include "engine/cuda/kernels/bodies/attention_forward.h"
#include "engine/cuda/kernels/bodies/attention_mma_backward.h"
#include "engine/cuda/kernels/bodies/attention_mma_forward.h"

namespace nqd::engine::cuda::bodies {

template <typename S>
constexpr bool takes_tensor_cores(std::int64_t head_width) {
  return !std::is_same_v<S, float> && head_width <= 128;
}

template <typename S, typename Run>
void attention_forward(const Run& run, S* out, float* lse, const S* q, const S* k, const S* v,
                       const cpu::AttentionLayout& layout, const cpu::AttentionDropout* dropout) {
  if constexpr (!std::is_same_v<S, float>) {
    if (takes_tensor_cores<S>(layout.head_width)) {
      const AttentionShape shape = attention_shape(layout, dropout, q, k, v);
      if (layout.head_width <= 64) return run(AttentionMmaForward<S, 64>{out, lse, q, k, v, shape});
      return run(AttentionMmaForward<S, 128>{out, lse, q, k, v, shape});
    }
  }
  reference_attention_forward(run, out, lse, q, k, v, layout, dropout);
}

template <typename S, int D, typename Run>
void mma_attention_backward(const Run& run, S* dq, S* dk, S* dv, const AttentionGradient<S>& in) {
  run(AttentionMmaBackward<S, D, true>{dk, dv, in});
  run(AttentionMmaBackward<S, D, false>{dq, nullptr, in});
}

template <typename S, typename Run>
void attention_backward(const Run& run, S* dq, S* dk, S* dv, const S* d_out, const S* out,
                        const float* lse, const S* q, const S* k, const S* v,
                        const cpu::AttentionLayout& layout, const cpu::AttentionDropout* dropout,
                        float* scratch) {
  const AttentionShape shape = attention_shape(layout, dropout, q, k, v, d_out, out);
  if (shape.packed) {
    run(AttentionInner<S, kPackWidth<S>>{scratch, d_out, out, layout});
  } else {
    run(AttentionInner<S, 1>{scratch, d_out, out, layout});
  }
  const AttentionGradient<S> in{d_out, lse, scratch, q, k, v, shape};
  if constexpr (!std::is_same_v<S, float>) {
    if (takes_tensor_cores<S>(layout.head_width)) {
      if (layout.head_width <= 64) return mma_attention_backward<S, 64>(run, dq, dk, dv, in);
      return mma_attention_backward<S, 128>(run, dq, dk, dv, in);
    }
  }
  reference_attention_backward(run, dq, dk, dv, in);
}

}  // namespace nqd::engine::cuda::bodies

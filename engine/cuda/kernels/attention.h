// engine/cpu/blocked_attention.h on a device: the reference kernel that every build has. The same
// arguments, after the stream that they run on, but all heads at once. Products are in float32 on
// tiles in shared memory. Pointers are of device memory; `dropout`, null for none, is read on the
// host. Heads of up to 256 columns. S is float, BFloat16 or Float16.
#pragma once

#include <cstdint>

#include "engine/cpu/blocked_attention.h"
#include "engine/cuda/handles.h"

namespace nqd::engine::cuda {

template <typename S>
void attention_forward(StreamHandle stream, S* out, float* lse, const S* q, const S* k, const S* v,
                       const cpu::AttentionLayout& layout, const cpu::AttentionDropout* dropout);

// `scratch` holds attention_backward_scratch(layout) floats.
std::int64_t attention_backward_scratch(const cpu::AttentionLayout& layout);
template <typename S>
void attention_backward(StreamHandle stream, S* dq, S* dk, S* dv, const S* d_out, const S* out,
                        const float* lse, const S* q, const S* k, const S* v,
                        const cpu::AttentionLayout& layout, const cpu::AttentionDropout* dropout,
                        float* scratch);

}  // namespace nqd::engine::cuda

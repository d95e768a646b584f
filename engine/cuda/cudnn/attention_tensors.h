// How a library of attention is told where the engine's tensors lie: extents [batch, heads,
// sequence, width] and the elements from one to the next of each.
#pragma once

#include <array>
#include <cstdint>

#include "base/dtype.h"
#include "engine/cpu/blocked_attention.h"

namespace nqd::engine::cuda {

struct AttentionTensor {
  std::array<std::int64_t, 4> extents{};
  std::array<std::int64_t, 4> strides{};
};

// Gradients lie as what they are of.
struct AttentionTensors {
  AttentionTensor q;
  AttentionTensor kv;   // keys, and values
  AttentionTensor out;  // the output
  AttentionTensor lse;  // width 1: the natural logarithm of each row's sum of exponentials
};

inline AttentionTensors attention_tensors(const cpu::AttentionLayout& at) {
  const auto rows = [&](std::int64_t heads, std::int64_t stride) {
    return AttentionTensor{{at.batch, heads, at.sequence, at.head_width},
                           {at.sequence * stride, at.head_width, stride, 1}};
  };
  return {rows(at.heads, at.q_stride),
          rows(at.kv_heads, at.kv_stride),
          rows(at.heads, at.out_stride),
          {{at.batch, at.heads, at.sequence, 1}, {at.heads * at.sequence, at.sequence, 1, 1}}};
}

// Whether rows and heads begin where a library of fused attention can read 16 bytes: what it must
// have before it is asked about anything else. Of 16-bit types alone.
inline bool suits_fused_attention(DType type, const cpu::AttentionLayout& at) {
  const auto whole = [](std::int64_t elements) { return elements % 8 == 0; };
  return type != DType::kFloat32 && at.batch > 0 && at.sequence > 0 && whole(at.head_width) &&
         at.head_width <= 256 && whole(at.q_stride) && whole(at.kv_stride) && whole(at.out_stride);
}

}  // namespace nqd::engine::cuda

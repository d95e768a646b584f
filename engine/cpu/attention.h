// Causal multi-head attention on a packed [q | k | v] activation.
//
// A row of qkv [batch·sequence, 3·hidden] holds q, k, v of one token; head j of each is its columns
// [j·d, (j+1)·d), d = hidden / heads. Heads are read and written in place through row strides. Work
// above the diagonal is skipped in blocks of kAttentionBlock rows.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "engine/cpu/math.h"
#include "engine/cpu/product.h"

namespace nqd::engine::cpu {

inline constexpr std::int64_t kAttentionBlock = 64;

struct AttentionShape {
  std::int64_t batch;
  std::int64_t sequence;
  std::int64_t heads;
  std::int64_t hidden;

  std::int64_t head_width() const { return hidden / heads; }
  std::int64_t qkv_stride() const { return 3 * hidden; }
  // First element of q of (sequence b, head j) in qkv; k follows at + hidden, v at + 2 · hidden.
  std::int64_t qkv_offset(std::int64_t b, std::int64_t j) const {
    return b * sequence * qkv_stride() + j * head_width();
  }
  std::int64_t out_offset(std::int64_t b, std::int64_t j) const {
    return b * sequence * hidden + j * head_width();
  }
  std::int64_t probabilities_offset(std::int64_t b, std::int64_t j) const {
    return (b * heads + j) * sequence * sequence;
  }
};

namespace detail {

// Row i of a block keeps columns [0, i]; the rest of the block's square becomes 0.
template <typename T>
void causal_softmax_rows(T* scores, std::int64_t begin, std::int64_t end, std::int64_t stride) {
  for (std::int64_t i = begin; i < end; ++i) {
    T* row = scores + i * stride;
    softmax_in_place(row, i + 1);
    std::fill(row + i + 1, row + end, T(0));
  }
}

// dscores = p · (dp - sum of p · dp), in place on dp, causal like above.
template <typename T>
void causal_softmax_backward_rows(T* d_scores, const T* probabilities, std::int64_t begin,
                                  std::int64_t end, std::int64_t stride) {
  for (std::int64_t i = begin; i < end; ++i) {
    T* __restrict d = d_scores + i * stride;
    const T* __restrict p = probabilities + i * stride;
    const T inner = lane_sum<T>(i + 1, [=](std::int64_t j) { return p[j] * d[j]; });
    for (std::int64_t j = 0; j <= i; ++j) d[j] = p[j] * (d[j] - inner);
    std::fill(d + i + 1, d + end, T(0));
  }
}

template <typename T>
T score_scale(const AttentionShape& shape) {
  return T(1) / std::sqrt(static_cast<T>(shape.head_width()));
}

// out rows of one head: y = softmax(q · kᵀ · scale) · v.
template <typename T>
void attention_head_forward(T* y, T* p, const T* q, const AttentionShape& shape) {
  const std::int64_t length = shape.sequence;
  const std::int64_t width = shape.head_width();
  const std::int64_t stride = shape.qkv_stride();
  const T* k = q + shape.hidden;
  const T* v = k + shape.hidden;
  for (std::int64_t begin = 0; begin < length; begin += kAttentionBlock) {
    const std::int64_t end = std::min(begin + kAttentionBlock, length);
    T* p_block = p + begin * length;
    Product<T>::run(end - begin, end, width, score_scale<T>(shape), {q + begin * stride, stride},
                    {k, stride, Transpose::kYes}, T(0), p_block, length);
    causal_softmax_rows(p, begin, end, length);
    Product<T>::run(end - begin, width, end, T(1), {p_block, length}, {v, stride}, T(0),
                    y + begin * shape.hidden, shape.hidden);
  }
}

// The gradients of one head's scores into d_scores, and from them dq.
template <typename T>
void attention_head_backward_queries(T* dq, T* d_scores, const T* dy, const T* p, const T* q,
                                     const AttentionShape& shape) {
  const std::int64_t length = shape.sequence;
  const std::int64_t width = shape.head_width();
  const std::int64_t stride = shape.qkv_stride();
  const T* k = q + shape.hidden;
  const T* v = k + shape.hidden;
  for (std::int64_t begin = 0; begin < length; begin += kAttentionBlock) {
    const std::int64_t end = std::min(begin + kAttentionBlock, length);
    T* d_block = d_scores + begin * length;
    Product<T>::run(end - begin, end, width, T(1), {dy + begin * shape.hidden, shape.hidden},
                    {v, stride, Transpose::kYes}, T(0), d_block, length);
    causal_softmax_backward_rows(d_scores, p, begin, end, length);
    Product<T>::run(end - begin, width, end, score_scale<T>(shape), {d_block, length}, {k, stride},
                    T(0), dq + begin * stride, stride);
  }
}

// dk and dv of one head: a block of keys is seen by the queries from that block on.
template <typename T>
void attention_head_backward_keys(T* dk, T* dv, const T* d_scores, const T* dy, const T* p,
                                  const T* q, const AttentionShape& shape) {
  const std::int64_t length = shape.sequence;
  const std::int64_t width = shape.head_width();
  const std::int64_t stride = shape.qkv_stride();
  for (std::int64_t begin = 0; begin < length; begin += kAttentionBlock) {
    const std::int64_t keys = std::min(kAttentionBlock, length - begin);
    const std::int64_t corner = begin * length + begin;
    Product<T>::run(keys, width, length - begin, score_scale<T>(shape),
                    {d_scores + corner, length, Transpose::kYes}, {q + begin * stride, stride},
                    T(0), dk + begin * stride, stride);
    Product<T>::run(keys, width, length - begin, T(1), {p + corner, length, Transpose::kYes},
                    {dy + begin * shape.hidden, shape.hidden}, T(0), dv + begin * stride, stride);
  }
}

}  // namespace detail

// out [batch·sequence, hidden] = softmax(q · kᵀ / √d, causal) · v. Keeps the probabilities
// [batch, heads, sequence, sequence]; elements right of a block's square are neither written nor
// read.
template <typename T>
void attention_forward(T* out, T* probabilities, const T* qkv, const AttentionShape& shape) {
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    for (std::int64_t j = 0; j < shape.heads; ++j) {
      detail::attention_head_forward(out + shape.out_offset(b, j),
                                     probabilities + shape.probabilities_offset(b, j),
                                     qkv + shape.qkv_offset(b, j), shape);
    }
  }
}

// Overwrites d_qkv. `scratch` holds sequence · sequence elements.
template <typename T>
void attention_backward(T* d_qkv, T* scratch, const T* d_out, const T* probabilities, const T* qkv,
                        const AttentionShape& shape) {
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    for (std::int64_t j = 0; j < shape.heads; ++j) {
      const T* q = qkv + shape.qkv_offset(b, j);
      const T* p = probabilities + shape.probabilities_offset(b, j);
      const T* dy = d_out + shape.out_offset(b, j);
      T* dq = d_qkv + shape.qkv_offset(b, j);
      T* dk = dq + shape.hidden;
      T* dv = dk + shape.hidden;
      detail::attention_head_backward_queries(dq, scratch, dy, p, q, shape);
      detail::attention_head_backward_keys(dk, dv, scratch, dy, p, q, shape);
    }
  }
}

extern template void attention_forward<float>(float*, float*, const float*, const AttentionShape&);
extern template void attention_backward<float>(float*, float*, const float*, const float*,
                                               const float*, const AttentionShape&);

}  // namespace nqd::engine::cpu

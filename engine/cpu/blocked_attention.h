// Scaled dot-product attention in blocks (Dao et al. 2022, "FlashAttention"): the s × s scores are
// never stored. Grouped-query heads: query head j uses key and value head j · kv_heads / heads.
//
// Every product is one chain of fused multiply-adds per element in ascending order, over blocks at
// fixed places of the sequence, so that a head's bits depend on its own q, k and v alone: not on
// the batch, the number of heads of this rank, their strides, or the width of vectors.
#pragma once

#include <cstdint>

#include "engine/cpu/dropout.h"
#include "engine/cpu/storage.h"

namespace nqd::engine::cpu {

// Rows are tokens: row b · sequence + i. Head j of q and of the output is columns
// [j · head_width, (j + 1) · head_width); key and value heads likewise.
struct AttentionLayout {
  std::int64_t batch = 0;
  std::int64_t sequence = 0;
  std::int64_t heads = 0;     // of this rank
  std::int64_t kv_heads = 0;  // of this rank; a divisor of heads
  std::int64_t head_width = 0;
  bool causal = true;           // a token sees itself and those before it; false: all
  std::int64_t q_stride = 0;    // elements between rows of q and dq
  std::int64_t kv_stride = 0;   // of k, v, dk and dv
  std::int64_t out_stride = 0;  // of the output and its gradient

  std::int64_t kv_items() const { return batch * kv_heads; }
};

// The layout of rows [q | k | v] with an output of heads · head_width columns; k starts at column
// heads · head_width, v at (heads + kv_heads) · head_width.
AttentionLayout packed_attention(std::int64_t batch, std::int64_t sequence, std::int64_t heads,
                                 std::int64_t kv_heads, std::int64_t head_width, bool causal);

// Key heads [begin, end) of the batch · kv_heads, sequence by sequence: what one call computes.
// Threads with scratch of their own may share the work by ranges; results do not depend on it.
struct KvRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

// Dropout of the probabilities. The index of a probability in the step is
// ((sequence in the step · model_heads + head in the model) · sequence + query) · sequence + key.
struct AttentionDropout {
  Dropout dropout;
  std::int64_t first_sequence = 0;  // of this micro-batch in the step
  std::int64_t first_head = 0;      // of this rank in the model
  std::int64_t model_heads = 0;
};

// Elements of Compute<S> that a call needs as scratch. With s = sequence and d = head
// width rounded up to 16: forward 2·s·d + 96·d + 49·192 + 96, backward 5·s·d + 144·d + 97·192 + 48.
std::int64_t attention_forward_scratch(const AttentionLayout& layout);
std::int64_t attention_backward_scratch(const AttentionLayout& layout);

// out = softmax(q · kᵀ / √head_width, masked) · v. Keeps lse [batch, heads, sequence], the
// logarithm of each row's sum of exponentials. `dropout` null: none.
template <typename S>
void blocked_attention_forward(S* out, Compute<S>* lse, const S* q, const S* k, const S* v,
                               const AttentionLayout& layout, const KvRange& range,
                               const AttentionDropout* dropout, Compute<S>* scratch);

// Overwrites dq, dk and dv (of the range's heads) from the output's gradient, what forward kept and
// what it read; the probabilities are computed again.
template <typename S>
void blocked_attention_backward(S* dq, S* dk, S* dv, const S* d_out, const S* out,
                                const Compute<S>* lse, const S* q, const S* k, const S* v,
                                const AttentionLayout& layout, const KvRange& range,
                                const AttentionDropout* dropout, Compute<S>* scratch);

}  // namespace nqd::engine::cpu

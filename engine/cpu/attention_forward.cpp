#include <limits>

#include "engine/cpu/attention_blocks.h"

namespace nqd::engine::cpu {
namespace blocks {
namespace {

// One key head: its keys and values in cache, and the state of one block of queries.
template <typename T>
struct ForwardScratch {
  ForwardScratch(const AttentionLayout& layout, T* scratch)
      : width(round_up(layout.head_width, kPadding)),
        rows(round_up(layout.sequence, kPadding)),
        keys(scratch),
        values(keys + rows * width),
        queries(values + rows * width),
        out(queries + kQueries * width),
        scores(out + kQueries * width),
        factors(scores + kQueries * kKeys),
        maximum(factors + kKeys),
        sum(maximum + kQueries) {}

  Tiles<T> tiles;
  std::int64_t width, rows;
  T *keys, *values, *queries, *out, *scores, *factors, *maximum, *sum;
};

// Scores of one block become weights e^(score − maximum); what earlier blocks left in `sum` and
// `out` is rescaled to the new maximum.
template <typename T>
void softmax_block(const ForwardScratch<T>& s, std::int64_t queries, const Visible& seen,
                   bool first_block) {
  for (std::int64_t i = 0; i < queries; ++i) {
    T* row = s.scores + i * kKeys;
    const std::int64_t count = seen.count(i);
    if (count == 0) {
      exponentials(row, 0, T(0));
      continue;
    }
    const T block_maximum = maximum_of(row, count);
    if (first_block) {
      s.maximum[i] = block_maximum;
      s.sum[i] = exponentials(row, count, block_maximum);
      continue;
    }
    const T maximum = std::max(s.maximum[i], block_maximum);
    const T rescale = fast_exp(s.maximum[i] - maximum);
    s.maximum[i] = maximum;
    s.sum[i] = s.sum[i] * rescale + exponentials(row, count, maximum);
    T* __restrict out = s.out + i * s.width;
    for (std::int64_t c = 0; c < s.width; ++c) out[c] *= rescale;
  }
}

template <typename T>
void drop_weights(const ForwardScratch<T>& s, std::int64_t queries, const Visible& seen,
                  const Dropout& dropout, std::int64_t first_element, std::int64_t sequence) {
  for (std::int64_t i = 0; i < queries; ++i) {
    const std::int64_t count = seen.count(i);
    dropout_factors(s.factors, dropout, first_element + i * sequence, count);
    T* __restrict row = s.scores + i * kKeys;
    for (std::int64_t j = 0; j < count; ++j) row[j] *= s.factors[j];
  }
}

template <typename S, typename T>
void write_queries(S* out, T* lse, const ForwardScratch<T>& s, std::int64_t queries,
                   const AttentionLayout& layout) {
  for (std::int64_t i = 0; i < queries; ++i) {
    const T inverse = T(1) / s.sum[i];
    const T* __restrict x = s.out + i * s.width;
    S* __restrict y = out + i * layout.out_stride;
    prefetch_row<true>(y + kRowsAhead * layout.out_stride, layout.head_width);
    for (std::int64_t c = 0; c < layout.head_width; ++c) y[c] = narrow<S>(x[c] * inverse);
    lse[i] = s.maximum[i] + std::log(s.sum[i]);
  }
}

// Queries [first, first + queries) of one head; out, lse and q point to the first of them.
template <typename S, typename T>
void forward_queries(S* out, T* lse, const S* q, std::int64_t first, std::int64_t first_element,
                     const AttentionLayout& layout, const AttentionDropout* dropout,
                     const ForwardScratch<T>& s) {
  const std::int64_t queries = std::min(kQueries, layout.sequence - first);
  const T scale = T(1) / std::sqrt(static_cast<T>(layout.head_width));
  copy_rows(s.queries, q, layout.q_stride, queries, layout.head_width, s.width, scale);
  const std::int64_t end = layout.causal ? first + queries : layout.sequence;
  for (std::int64_t key = 0; key < end; key += kKeys) {
    const Visible seen = visible(layout, first, key);
    multiply_queries_by_keys(s.tiles, s.scores, s.queries, s.keys + key * s.width,
                             block_columns(layout, key), s.width, queries, seen);
    softmax_block(s, queries, seen, key == 0);
    if (dropout != nullptr) {
      drop_weights(s, queries, seen, dropout->dropout, first_element + key, layout.sequence);
    }
    multiply_weights_by_keys(s.tiles, s.out, s.scores, s.values + key * s.width, s.width, queries,
                             seen, key > 0);
  }
  write_queries(out, lse, s, queries, layout);
}

}  // namespace
}  // namespace blocks

AttentionLayout packed_attention(std::int64_t batch, std::int64_t sequence, std::int64_t heads,
                                 std::int64_t kv_heads, std::int64_t head_width, bool causal) {
  const std::int64_t stride = (heads + 2 * kv_heads) * head_width;
  return {batch, sequence, heads, kv_heads, head_width, causal, stride, stride, heads * head_width};
}

std::int64_t attention_forward_scratch(const AttentionLayout& layout) {
  using namespace blocks;
  const std::int64_t width = round_up(layout.head_width, kPadding);
  const std::int64_t rows = round_up(layout.sequence, kPadding);
  return 2 * rows * width + 2 * kQueries * width + (kQueries + 1) * kKeys + 2 * kQueries;
}

template <typename S>
void blocked_attention_forward(S* out, Compute<S>* lse, const S* q, const S* k, const S* v,
                               const AttentionLayout& layout, const KvRange& range,
                               const AttentionDropout* dropout, Compute<S>* scratch) {
  using T = Compute<S>;
  using namespace blocks;
  const ForwardScratch<T> s(layout, scratch);
  const std::int64_t length = layout.sequence;
  const std::int64_t group = layout.heads / layout.kv_heads;
  for (std::int64_t item = range.begin; item < range.end; ++item) {
    const std::int64_t b = item / layout.kv_heads;
    const std::int64_t kv_head = item % layout.kv_heads;
    const std::int64_t kv = b * length * layout.kv_stride + kv_head * layout.head_width;
    transpose_blocks(s.keys, k + kv, layout, s.width);
    copy_rows(s.values, v + kv, layout.kv_stride, length, layout.head_width, s.width, T(1));
    for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      for (std::int64_t first = 0; first < length; first += kQueries) {
        const std::int64_t row = b * length + first;
        const std::int64_t column = head * layout.head_width;
        forward_queries(out + row * layout.out_stride + column,
                        lse + (b * layout.heads + head) * length + first,
                        q + row * layout.q_stride + column, first,
                        first_dropout_element(layout, dropout, b, head, first), layout, dropout, s);
      }
    }
  }
}

template void blocked_attention_forward<float>(float*, float*, const float*, const float*,
                                               const float*, const AttentionLayout&, const KvRange&,
                                               const AttentionDropout*, float*);
template void blocked_attention_forward<double>(double*, double*, const double*, const double*,
                                                const double*, const AttentionLayout&,
                                                const KvRange&, const AttentionDropout*, double*);
template void blocked_attention_forward<BFloat16>(BFloat16*, float*, const BFloat16*,
                                                  const BFloat16*, const BFloat16*,
                                                  const AttentionLayout&, const KvRange&,
                                                  const AttentionDropout*, float*);
template void blocked_attention_forward<Float16>(Float16*, float*, const Float16*, const Float16*,
                                                 const Float16*, const AttentionLayout&,
                                                 const KvRange&, const AttentionDropout*, float*);

}  // namespace nqd::engine::cpu

#include "engine/cpu/attention_blocks.h"

namespace nqd::engine::cpu {
namespace blocks {
namespace {

// One key head: its keys and values and their gradients, and the state of one block of queries.
template <typename T>
struct BackwardScratch {
  BackwardScratch(const AttentionLayout& layout, T* scratch)
      : width(round_up(layout.head_width, kPadding)),
        rows(round_up(layout.sequence, kPadding)),
        keys_across(scratch),
        values_across(keys_across + rows * width),
        keys(values_across + rows * width),
        d_keys(keys + rows * width),
        d_values(d_keys + rows * width),
        queries(d_values + rows * width),
        d_queries(queries + kQueries * width),
        d_out(d_queries + kQueries * width),
        weights(d_out + kQueries * width),
        d_scores(weights + kQueries * kKeys),
        factors(d_scores + kQueries * kKeys),
        inner(factors + kKeys) {}

  Tiles<T> tiles;
  std::int64_t width, rows;
  T *keys_across, *values_across, *keys, *d_keys, *d_values;
  T *queries, *d_queries, *d_out, *weights, *d_scores, *factors, *inner;
};

// d_out · out of each query: the sum over keys of weight · d_weight.
template <typename S, typename T>
void inner_products(T* inner, const S* d_out, const S* out, std::int64_t queries,
                    const AttentionLayout& layout) {
  for (std::int64_t i = 0; i < queries; ++i) {
    const S* dy = d_out + i * layout.out_stride;
    const S* y = out + i * layout.out_stride;
    prefetch_row<false>(y + kRowsAhead * layout.out_stride, layout.head_width);
    inner[i] =
        lane_sum<T>(layout.head_width, [=](std::int64_t c) { return widen(dy[c]) * widen(y[c]); });
  }
}

// Scores become weights e^(score − lse), their gradients d_weight become those of the scores,
// weight · (d_weight − inner). Under dropout both take each key's factor.
template <typename T>
void softmax_backward_block(const BackwardScratch<T>& s, const T* lse, std::int64_t queries,
                            const Visible& seen, const AttentionDropout* dropout,
                            std::int64_t first_element, std::int64_t sequence) {
  for (std::int64_t i = 0; i < queries; ++i) {
    const std::int64_t count = seen.count(i);
    T* __restrict weight = s.weights + i * kKeys;
    T* __restrict d = s.d_scores + i * kKeys;
    exponentials(weight, count, lse[i]);
    // Weights are 0 from `count` on, and with them these gradients.
    const std::int64_t computed = round_up(count, kPadding);
    const std::int64_t end = std::min(computed + kPadding, kKeys);
    const T inner = s.inner[i];
    if (dropout == nullptr) {
      for (std::int64_t j = 0; j < computed; ++j) d[j] = weight[j] * (d[j] - inner);
    } else {
      T* __restrict factor = s.factors;
      dropout_factors(factor, dropout->dropout, first_element + i * sequence, computed);
      for (std::int64_t j = 0; j < computed; ++j) {
        d[j] = weight[j] * (d[j] * factor[j] - inner);
        weight[j] *= factor[j];
      }
    }
    std::fill(d + computed, d + end, T(0));
  }
}

// Queries [first, first + queries) of one head; dq, d_out, out, lse and q point to the first.
template <typename S, typename T>
void backward_queries(S* dq, const S* d_out, const S* out, const T* lse, const S* q,
                      std::int64_t first, std::int64_t first_element, const AttentionLayout& layout,
                      const AttentionDropout* dropout, const BackwardScratch<T>& s) {
  const std::int64_t queries = std::min(kQueries, layout.sequence - first);
  const std::int64_t width = layout.head_width;
  const T scale = T(1) / std::sqrt(static_cast<T>(width));
  copy_rows(s.queries, q, layout.q_stride, queries, width, s.width, scale);
  copy_rows(s.d_out, d_out, layout.out_stride, queries, width, s.width, T(1));
  inner_products(s.inner, d_out, out, queries, layout);
  const std::int64_t end = layout.causal ? first + queries : layout.sequence;
  for (std::int64_t key = 0; key < end; key += kKeys) {
    const Visible seen = visible(layout, first, key);
    const std::int64_t at = key * s.width;
    const std::int64_t columns = block_columns(layout, key);
    multiply_queries_by_keys(s.tiles, s.weights, s.queries, s.keys_across + at, columns, s.width,
                             queries, seen);
    multiply_queries_by_keys(s.tiles, s.d_scores, s.d_out, s.values_across + at, columns, s.width,
                             queries, seen);
    softmax_backward_block(s, lse, queries, seen, dropout, first_element + key, layout.sequence);
    add_weights_by_queries(s.tiles, s.d_values + at, s.weights, s.d_out, s.width, queries, seen);
    add_weights_by_queries(s.tiles, s.d_keys + at, s.d_scores, s.queries, s.width, queries, seen);
    multiply_weights_by_keys(s.tiles, s.d_queries, s.d_scores, s.keys + at, s.width, queries, seen,
                             key > 0);
  }
  write_rows(dq, layout.q_stride, s.d_queries, s.width, queries, width, scale);
}

template <typename S, typename T>
void load_key_head(const BackwardScratch<T>& s, const S* k, const S* v,
                   const AttentionLayout& layout) {
  transpose_blocks(s.keys_across, k, layout, s.width);
  transpose_blocks(s.values_across, v, layout, s.width);
  copy_rows(s.keys, k, layout.kv_stride, layout.sequence, layout.head_width, s.width, T(1));
  std::fill(s.d_keys, s.d_values + s.rows * s.width, T(0));  // adjacent
}

}  // namespace
}  // namespace blocks

std::int64_t attention_backward_scratch(const AttentionLayout& layout) {
  using namespace blocks;
  const std::int64_t width = round_up(layout.head_width, kPadding);
  const std::int64_t rows = round_up(layout.sequence, kPadding);
  return 5 * rows * width + 3 * kQueries * width + (2 * kQueries + 1) * kKeys + kQueries;
}

template <typename S>
void blocked_attention_backward(S* dq, S* dk, S* dv, const S* d_out, const S* out,
                                const Compute<S>* lse, const S* q, const S* k, const S* v,
                                const AttentionLayout& layout, const KvRange& range,
                                const AttentionDropout* dropout, Compute<S>* scratch) {
  using T = Compute<S>;
  using namespace blocks;
  const BackwardScratch<T> s(layout, scratch);
  const std::int64_t length = layout.sequence;
  const std::int64_t width = layout.head_width;
  const std::int64_t group = layout.heads / layout.kv_heads;
  for (std::int64_t item = range.begin; item < range.end; ++item) {
    const std::int64_t b = item / layout.kv_heads;
    const std::int64_t kv_head = item % layout.kv_heads;
    const std::int64_t kv = b * length * layout.kv_stride + kv_head * width;
    load_key_head(s, k + kv, v + kv, layout);
    for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      for (std::int64_t first = 0; first < length; first += kQueries) {
        const std::int64_t row = b * length + first;
        const std::int64_t at_q = row * layout.q_stride + head * width;
        const std::int64_t at_out = row * layout.out_stride + head * width;
        backward_queries(dq + at_q, d_out + at_out, out + at_out,
                         lse + (b * layout.heads + head) * length + first, q + at_q, first,
                         first_dropout_element(layout, dropout, b, head, first), layout, dropout,
                         s);
      }
    }
    write_rows(dk + kv, layout.kv_stride, s.d_keys, s.width, length, width, T(1));
    write_rows(dv + kv, layout.kv_stride, s.d_values, s.width, length, width, T(1));
  }
}

template void blocked_attention_backward<float>(float*, float*, float*, const float*, const float*,
                                                const float*, const float*, const float*,
                                                const float*, const AttentionLayout&,
                                                const KvRange&, const AttentionDropout*, float*);
template void blocked_attention_backward<double>(double*, double*, double*, const double*,
                                                 const double*, const double*, const double*,
                                                 const double*, const double*,
                                                 const AttentionLayout&, const KvRange&,
                                                 const AttentionDropout*, double*);
template void blocked_attention_backward<BFloat16>(BFloat16*, BFloat16*, BFloat16*, const BFloat16*,
                                                   const BFloat16*, const float*, const BFloat16*,
                                                   const BFloat16*, const BFloat16*,
                                                   const AttentionLayout&, const KvRange&,
                                                   const AttentionDropout*, float*);
template void blocked_attention_backward<Float16>(Float16*, Float16*, Float16*, const Float16*,
                                                  const Float16*, const float*, const Float16*,
                                                  const Float16*, const Float16*,
                                                  const AttentionLayout&, const KvRange&,
                                                  const AttentionDropout*, float*);

}  // namespace nqd::engine::cpu

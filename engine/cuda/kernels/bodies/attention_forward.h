// blocked_attention_forward of engine/cpu/blocked_attention.h on the device: one block computes R
// queries of a head, over tiles of R keys with an online softmax.
#pragma once

#include "engine/cuda/kernels/bodies/attention_tiles.h"

namespace nqd::engine::cuda::bodies {

template <typename S, int D, int R>
struct AttentionForward {
  static constexpr int kThreads = kAttentionThreads;
  static constexpr const char* kName = "attention_forward";
  using Share = TileShare<D, R>;
  S* out;
  float* lse;
  const S* q;
  const S* k;
  const S* v;
  AttentionShape shape;

  struct Shared {
    HeadTile<D, R> queries;
    HeadTile<D, R> keys;  // then the values of the same rows
    float scores[R][R + 1];
    float sums[R][Share::kOfRow];
  };
  // Of a thread's row; `sum` of its own keys alone.
  struct State {
    float out[Share::kColumns];
    float maximum;
    float next_maximum;
    float sum;
  };

  std::int64_t blocks() const {
    const cpu::AttentionLayout& at = shape.layout;
    return at.batch * at.heads * divide_up(at.sequence, R);
  }

  // The block's place: sequence b, head, first query; and its rows of the arrays.
  struct Item {
    std::int64_t b, head, first;
    std::int64_t at_q, at_kv, at_out;
  };
  NQD_DEVICE Item item(std::int64_t index) const {
    const cpu::AttentionLayout& at = shape.layout;
    const Place tile = place_of(index, divide_up(at.sequence, R));
    const Place head = place_of(tile.row, at.heads);
    const std::int64_t row = head.row * at.sequence;
    const std::int64_t kv_head = head.column / (at.heads / at.kv_heads);
    return {head.row,
            head.column,
            tile.column * R,
            row * at.q_stride + head.column * at.head_width,
            row * at.kv_stride + kv_head * at.head_width,
            row * at.out_stride + head.column * at.head_width};
  }

  template <typename Block>
  NQD_DEVICE void operator()(Block& block) const {
    const cpu::AttentionLayout& at = shape.layout;
    const Item own = item(block.index());
    Shared& shared = block.template shared<Shared>();
    typename Block::template Own<State> states;
    block.each([&](int thread) {
      shared.queries.template fill<Block>(thread, q + own.at_q, at.q_stride, own.first, at.sequence,
                                          at.head_width, shape.scale, shape.packed);
      states[thread] = State{{}, -std::numeric_limits<float>::infinity(), 0, 0};
    });
    const std::int64_t past = own.first + R < at.sequence ? own.first + R : at.sequence;
    const std::int64_t end = at.causal ? past : at.sequence;
    for (std::int64_t key = 0; key < end; key += R) add_keys(block, shared, states, own, key);
    block.each([&](int thread) {
      shared.sums[Share::row(thread)][Share::lane(thread)] = states[thread].sum;
    });
    block.last([&](int thread) { write<Block>(thread, shared, states[thread], own); });
  }

 private:
  template <typename Block, typename States>
  NQD_DEVICE void add_keys(Block& block, Shared& shared, States& states, const Item& own,
                           std::int64_t key) const {
    const cpu::AttentionLayout& at = shape.layout;
    block.each([&](int thread) {
      shared.keys.template fill<Block>(thread, k + own.at_kv, at.kv_stride, key, at.sequence,
                                       at.head_width, 1.0F, shape.packed);
    });
    block.each([&](int thread) {
      const int row = Share::row(thread);
      for (int j = Share::lane(thread); j < R; j += Share::kOfRow) {
        const float score = dot(shared.queries, row, shared.keys, j);
        shared.scores[row][j] =
            shape.sees(own.first + row, key + j) ? score : -std::numeric_limits<float>::infinity();
      }
    });
    block.each([&](int thread) {
      float largest = states[thread].maximum;
      for (const float score : first_of(shared.scores[Share::row(thread)])) {
        largest = score > largest ? score : largest;
      }
      states[thread].next_maximum = largest;
      shared.keys.template fill<Block>(thread, v + own.at_kv, at.kv_stride, key, at.sequence,
                                       at.head_width, 1.0F, shape.packed);
    });
    block.each([&](int thread) { weigh(thread, shared, states[thread], own, key); });
    block.each([&](int thread) {
      const int row = Share::row(thread);
      State& state = states[thread];
      for (int j = 0; j < R; ++j) {
        const float weight = shared.scores[row][j];
        NQD_UNROLL
        for (int c = 0; c < Share::kColumns; ++c) {
          state.out[c] += weight * shared.keys.of[j][Share::lane(thread) + c * Share::kOfRow];
        }
      }
    });
  }

  // A row of scores without its padding.
  struct Row {
    const float* data;
    NQD_DEVICE const float* begin() const { return data; }
    NQD_DEVICE const float* end() const { return data + R; }
  };
  static NQD_DEVICE Row first_of(const float (&scores)[R + 1]) { return {scores}; }

  // The thread's scores become weights; what it has is rescaled to the new maximum.
  NQD_DEVICE void weigh(int thread, Shared& shared, State& state, const Item& own,
                        std::int64_t key) const {
    const int row = Share::row(thread);
    const float maximum = state.next_maximum;
    // No key seen yet: the row is past the end, and −∞ − −∞ is no number.
    const bool seen = maximum != -std::numeric_limits<float>::infinity();
    const float rescale = seen ? std::exp(state.maximum - maximum) : 1.0F;
    state.maximum = maximum;
    state.sum *= rescale;
    NQD_UNROLL
    for (int c = 0; c < Share::kColumns; ++c) state.out[c] *= rescale;
    for (int j = Share::lane(thread); j < R; j += Share::kOfRow) {
      const float weight = seen ? std::exp(shared.scores[row][j] - maximum) : 0.0F;
      state.sum += weight;
      shared.scores[row][j] = weight * shape.factor(own.b, own.head, own.first + row, key + j);
    }
  }

  template <typename Block>
  NQD_DEVICE void write(int thread, const Shared& shared, const State& state,
                        const Item& own) const {
    const cpu::AttentionLayout& at = shape.layout;
    const int row = Share::row(thread);
    const std::int64_t query = own.first + row;
    if (query >= at.sequence) return;
    float sum = shared.sums[row][0];
    for (int lane = 1; lane < Share::kOfRow; ++lane) sum += shared.sums[row][lane];
    const float inverse = 1.0F / sum;
    S* to = out + own.at_out + query * at.out_stride;
    NQD_UNROLL
    for (int c = 0; c < Share::kColumns; ++c) {
      const int column = Share::lane(thread) + c * Share::kOfRow;
      if (column < at.head_width) {
        to[column] = Block::template narrow<S>(state.out[c] * inverse);
      }
    }
    if (Share::lane(thread) == 0) {
      lse[(own.b * at.heads + own.head) * at.sequence + query] = state.maximum + std::log(sum);
    }
  }
};

template <typename S, typename Run>
void reference_attention_forward(const Run& run, S* out, float* lse, const S* q, const S* k,
                                 const S* v, const cpu::AttentionLayout& layout,
                                 const cpu::AttentionDropout* dropout) {
  const AttentionShape shape = attention_shape(layout, dropout, q, k, v);
  with_head_tile(layout.head_width, [&]<int D>() {
    run(AttentionForward < S, D, D == 256 ? 16 : 32 > {out, lse, q, k, v, shape});
  });
}

}  // namespace nqd::engine::cuda::bodies

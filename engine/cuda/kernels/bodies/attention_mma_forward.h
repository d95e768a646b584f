// The forward pass of attention on tensor cores: one block computes 64 queries of a head, a warp 16
// of them, over tiles of keys with an online softmax.
#pragma once

#include "engine/cuda/kernels/bodies/attention_mma.h"

namespace nqd::engine::cuda::bodies {

template <typename S, int D>
struct AttentionMmaForward {
  static constexpr int kThreads = 128;
  static constexpr const char* kName = "attention_forward";
  static constexpr int kRows = 64;
  static constexpr int kKeys = D == 64 ? 64 : 32;
  static constexpr int kTiles = kKeys / 8;
  S* out;
  float* lse;
  const S* q;
  const S* k;
  const S* v;
  AttentionShape shape;

  struct Shared {
    StoredTile<S, D, kRows> queries;
    StoredTile<S, D, kKeys> keys;
    StoredTile<S, D, kKeys> values;
  };
  // Of a thread's two rows; `sum` of its own columns alone.
  struct State {
    Accumulator<D / 8> out;
    Accumulator<kTiles> scores;
    float maximum[2];
    float next[2];
    float sum[2];
  };

  std::int64_t blocks() const {
    const cpu::AttentionLayout& at = shape.layout;
    return at.batch * at.heads * divide_up(at.sequence, kRows);
  }

  template <typename Block>
  NQD_DEVICE void operator()(Block& block) const {
    const cpu::AttentionLayout& at = shape.layout;
    const std::int64_t tiles = divide_up(at.sequence, kRows);
    const Place tile = place_of(block.index(), tiles);
    const Place head = place_of(tile.row, at.heads);
    // The last queries, which see most keys, begin first.
    const std::int64_t first = (tiles - 1 - tile.column) * kRows;
    const std::int64_t row = head.row * at.sequence;
    const std::int64_t kv_head = head.column / (at.heads / at.kv_heads);
    const std::int64_t at_kv = row * at.kv_stride + kv_head * at.head_width;
    Shared& shared = block.template shared<Shared>();
    typename Block::template Own<State> states;
    block.last([&](int thread) {
      shared.queries.begin_fill(block, thread, q + row * at.q_stride + head.column * at.head_width,
                                at.q_stride, first, at.sequence, at.head_width, shape.packed);
      State state{};
      state.maximum[0] = state.maximum[1] = -std::numeric_limits<float>::infinity();
      states[thread] = state;
    });
    const std::int64_t end = at.causal && first + kRows < at.sequence ? first + kRows : at.sequence;
    // Keys of the next tile arrive while values are weighed, values while scores are computed.
    const auto begin_keys = [&](std::int64_t key) {
      block.last([&](int thread) {
        shared.keys.begin_fill(block, thread, k + at_kv, at.kv_stride, key, at.sequence,
                               at.head_width, shape.packed);
      });
    };
    begin_keys(0);
    for (std::int64_t key = 0; key < end; key += kKeys) {
      block.copied();
      block.last([&](int thread) {
        shared.values.begin_fill(block, thread, v + at_kv, at.kv_stride, key, at.sequence,
                                 at.head_width, shape.packed);
        states[thread].scores = {};
      });
      const Item item{head.row, head.column, first, key};
      weigh_keys(block, shared, states, item);
      block.copied();
      if (key + kKeys < end) begin_keys(key + kKeys);
      add_values(block, shared, states);
    }
    block.quads([&](int thread) -> float& { return states[thread].sum[0]; }, Add{});
    block.quads([&](int thread) -> float& { return states[thread].sum[1]; }, Add{});
    block.last([&](int thread) { write<Block>(thread, states[thread], head, first); });
  }

 private:
  struct Item {
    std::int64_t b, head, query, key;
  };

  // The scores of a tile of keys, as weights.
  template <typename Block, typename States>
  NQD_DEVICE void weigh_keys(Block& block, const Shared& shared, States& states,
                             const Item& item) const {
    multiply_rows<S, D, kRows, kKeys, kTiles>(
        block, shared.queries, shared.keys,
        [&](int thread) -> Accumulator<kTiles>& { return states[thread].scores; });
    block.last([&](int thread) { mask(thread, states[thread], item); });
    block.quads([&](int thread) -> float& { return states[thread].next[0]; }, Larger{});
    block.quads([&](int thread) -> float& { return states[thread].next[1]; }, Larger{});
    block.last([&](int thread) { weigh(thread, states[thread], item); });
  }

  template <typename Block, typename States>
  NQD_DEVICE void add_values(Block& block, const Shared& shared, States& states) const {
    add_weighted_rows<S, D, kKeys, kTiles>(
        block, [&](int thread) -> Accumulator<kTiles>& { return states[thread].scores; },
        shared.values, [&](int thread) -> Accumulator<D / 8>& { return states[thread].out; });
  }

  // Scores are scaled, those that a query does not see −∞; `next` is the thread's largest so far.
  NQD_DEVICE void mask(int thread, State& state, const Item& item) const {
    const Lane lane(thread);
    state.next[0] = state.maximum[0];
    state.next[1] = state.maximum[1];
    NQD_UNROLL
    for (int n = 0; n < kTiles; ++n) {
      NQD_UNROLL
      for (int e = 0; e < 4; ++e) {
        const bool seen = shape.sees(item.query + lane.row(e), item.key + lane.column(n, e));
        float& score = state.scores.of[n][e];
        score = seen ? score * shape.scale : -std::numeric_limits<float>::infinity();
        state.next[e / 2] = Larger{}(score, state.next[e / 2]);
      }
    }
  }

  // Scores become weights; what the thread has is rescaled to the new maximum.
  NQD_DEVICE void weigh(int thread, State& state, const Item& item) const {
    const Lane lane(thread);
    float shift[2];
    float rescale[2];
    NQD_UNROLL
    for (int r = 0; r < 2; ++r) {
      // No key seen yet: the row is past the end, and −∞ − −∞ is no number.
      const bool seen = state.next[r] != -std::numeric_limits<float>::infinity();
      shift[r] = seen ? state.next[r] : 0.0F;
      rescale[r] = seen ? std::exp(state.maximum[r] - shift[r]) : 1.0F;
      state.maximum[r] = state.next[r];
      state.sum[r] *= rescale[r];
    }
    NQD_UNROLL
    for (int n = 0; n < D / 8; ++n) {
      NQD_UNROLL
      for (int e = 0; e < 4; ++e) state.out.of[n][e] *= rescale[e / 2];
    }
    NQD_UNROLL
    for (int n = 0; n < kTiles; ++n) {
      NQD_UNROLL
      for (int e = 0; e < 4; ++e) {
        const float weight = std::exp(state.scores.of[n][e] - shift[e / 2]);
        state.sum[e / 2] += weight;
        state.scores.of[n][e] = weight * shape.factor(item.b, item.head, item.query + lane.row(e),
                                                      item.key + lane.column(n, e));
      }
    }
  }

  template <typename Block>
  NQD_DEVICE void write(int thread, const State& state, const Place& head,
                        std::int64_t first) const {
    const cpu::AttentionLayout& at = shape.layout;
    const Lane lane(thread);
    NQD_UNROLL
    for (int e = 0; e < 4; ++e) {
      const std::int64_t query = first + lane.row(e);
      if (query >= at.sequence) continue;
      const float inverse = 1.0F / state.sum[e / 2];
      S* to = out + (head.row * at.sequence + query) * at.out_stride + head.column * at.head_width;
      NQD_UNROLL
      for (int n = 0; n < D / 8; ++n) {
        const int column = lane.column(n, e);
        if (column < at.head_width) {
          to[column] = Block::template narrow<S>(state.out.of[n][e] * inverse);
        }
      }
      if (lane.t == 0 && e % 2 == 0) {
        lse[(head.row * at.heads + head.column) * at.sequence + query] =
            state.maximum[e / 2] + std::log(state.sum[e / 2]);
      }
    }
  }
};

}  // namespace nqd::engine::cuda::bodies

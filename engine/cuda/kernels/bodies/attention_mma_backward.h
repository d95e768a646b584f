// The backward pass of attention on tensor cores, cut as attention_backward.h cuts it: one kernel
// sums over a key's queries, one over a query's keys. A warp has 16 rows (keys or queries), and
// tiles of 32 or 16 of the others pass by.
#pragma once

#include "engine/cuda/kernels/bodies/attention_backward.h"
#include "engine/cuda/kernels/bodies/attention_mma.h"

namespace nqd::engine::cuda::bodies {

// kOfKeys: rows are keys, dk and dv are summed; else rows are queries, and dq is.
template <typename S, int D, bool kOfKeys>
struct AttentionMmaBackward {
  static constexpr int kWarps = D == 64 ? 4 : 2;  // four tiles fit into 48 KiB
  static constexpr int kThreads = kWarps * 32;
  static constexpr const char* kName =
      kOfKeys ? "attention_backward_keys" : "attention_backward_queries";
  static constexpr int kRows = kWarps * 16;
  // Both sums of wide keys leave no registers for more.
  static constexpr int kOthers = kOfKeys && D > 64 ? 16 : 32;
  static constexpr int kTiles = kOthers / 8;
  S* first_gradient;   // dk or dq
  S* second_gradient;  // dv or null
  AttentionGradient<S> in;

  // Keys and values, and queries and d_out, or the other way round.
  struct Shared {
    StoredTile<S, D, kRows> row_a;
    StoredTile<S, D, kRows> row_b;
    StoredTile<S, D, kOthers> other_a;
    StoredTile<S, D, kOthers> other_b;
  };
  struct State {
    Accumulator<D / 8> first;
    Accumulator<kOfKeys ? D / 8 : 1> second;
    Accumulator<kTiles> weights;
    Accumulator<kTiles> d_scores;
  };

  std::int64_t blocks() const {
    const cpu::AttentionLayout& at = in.shape.layout;
    return at.batch * (kOfKeys ? at.kv_heads : at.heads) * divide_up(at.sequence, kRows);
  }

  template <typename Block>
  NQD_DEVICE void operator()(Block& block) const {
    const cpu::AttentionLayout& at = in.shape.layout;
    const std::int64_t tiles = divide_up(at.sequence, kRows);
    const Place tile = place_of(block.index(), tiles);
    const Place head = place_of(tile.row, kOfKeys ? at.kv_heads : at.heads);
    // What has most to do begins first: the last queries, the first keys.
    const std::int64_t first = (kOfKeys ? tile.column : tiles - 1 - tile.column) * kRows;
    const std::int64_t group = at.heads / at.kv_heads;
    Shared& shared = block.template shared<Shared>();
    typename Block::template Own<State> states;
    block.each([&](int thread) {
      fill<Block, kOfKeys>(thread, shared.row_a, shared.row_b, head.row, head.column, first);
      states[thread] = State{};
    });
    const std::int64_t begin = kOfKeys && at.causal ? first / kOthers * kOthers : 0;
    const bool cut = !kOfKeys && at.causal && first + kRows < at.sequence;
    const std::int64_t end = cut ? first + kRows : at.sequence;
    for (std::int64_t h = 0; h < (kOfKeys ? group : 1); ++h) {
      const std::int64_t query_head = kOfKeys ? head.column * group + h : head.column;
      const std::int64_t other_head = kOfKeys ? query_head : head.column / group;
      for (std::int64_t other = begin; other < end; other += kOthers) {
        block.each([&](int thread) {
          fill<Block, !kOfKeys>(thread, shared.other_a, shared.other_b, head.row, other_head,
                                other);
          states[thread].weights = {};
          states[thread].d_scores = {};
        });
        add_others(block, shared, states, {head.row, query_head, first, other});
      }
    }
    block.last([&](int thread) { write<Block>(thread, states[thread], head, first); });
  }

 private:
  struct Item {
    std::int64_t b, head, row, other;
  };

  // Keys and values of a key head, or queries and d_out of a head.
  template <typename Block, bool kKeys, int R>
  NQD_DEVICE void fill(int thread, StoredTile<S, D, R>& a, StoredTile<S, D, R>& b,
                       std::int64_t sequence, std::int64_t head, std::int64_t first) const {
    const cpu::AttentionLayout& at = in.shape.layout;
    const std::int64_t row = sequence * at.sequence, column = head * at.head_width;
    const std::int64_t stride_a = kKeys ? at.kv_stride : at.q_stride;
    const std::int64_t stride_b = kKeys ? at.kv_stride : at.out_stride;
    a.template fill<Block>(thread, (kKeys ? in.k : in.q) + row * stride_a + column, stride_a, first,
                           at.sequence, at.head_width, in.shape.packed);
    b.template fill<Block>(thread, (kKeys ? in.v : in.d_out) + row * stride_b + column, stride_b,
                           first, at.sequence, at.head_width, in.shape.packed);
  }

  template <typename Block, typename States>
  NQD_DEVICE void add_others(Block& block, const Shared& shared, States& states,
                             const Item& item) const {
    const auto weights = [&](int thread) -> Accumulator<kTiles>& { return states[thread].weights; };
    const auto d_scores = [&](int thread) -> Accumulator<kTiles>& {
      return states[thread].d_scores;
    };
    multiply_rows<S, D, kRows, kOthers, kTiles>(block, shared.row_a, shared.other_a, weights);
    multiply_rows<S, D, kRows, kOthers, kTiles>(block, shared.row_b, shared.other_b, d_scores);
    block.last([&](int thread) { weigh(thread, states[thread], item); });
    add_weighted_rows<S, D, kOthers, kTiles>(
        block, d_scores, shared.other_a,
        [&](int thread) -> Accumulator<D / 8>& { return states[thread].first; });
    if constexpr (kOfKeys) {
      add_weighted_rows<S, D, kOthers, kTiles>(
          block, weights, shared.other_b,
          [&](int thread) -> Accumulator<D / 8>& { return states[thread].second; });
    }
    block.barrier();  // the next rows take the place of these
  }

  // Scores become weights, their gradients d_weight those of the scores.
  NQD_DEVICE void weigh(int thread, State& state, const Item& item) const {
    const Lane lane(thread);
    const cpu::AttentionLayout& at = in.shape.layout;
    const std::int64_t kept = (item.b * at.heads + item.head) * at.sequence;
    NQD_UNROLL
    for (int n = 0; n < kTiles; ++n) {
      NQD_UNROLL
      for (int e = 0; e < 4; ++e) {
        const std::int64_t row = item.row + lane.row(e), other = item.other + lane.column(n, e);
        const std::int64_t query = kOfKeys ? other : row, key = kOfKeys ? row : other;
        float& weight = state.weights.of[n][e];
        float& d = state.d_scores.of[n][e];
        if (!in.shape.sees(query, key)) {
          weight = d = 0;
          continue;
        }
        weight = std::exp(weight * in.shape.scale - in.lse[kept + query]);
        const float factor = in.shape.factor(item.b, item.head, query, key);
        d = weight * (d * factor - in.inner[kept + query]);
        weight *= factor;
      }
    }
  }

  template <typename Block>
  NQD_DEVICE void write(int thread, const State& state, const Place& head,
                        std::int64_t first) const {
    const cpu::AttentionLayout& at = in.shape.layout;
    const std::int64_t stride = kOfKeys ? at.kv_stride : at.q_stride;
    const Lane lane(thread);
    NQD_UNROLL
    for (int e = 0; e < 4; ++e) {
      const std::int64_t row = first + lane.row(e);
      if (row >= at.sequence) continue;
      const std::int64_t to = (head.row * at.sequence + row) * stride + head.column * at.head_width;
      NQD_UNROLL
      for (int n = 0; n < D / 8; ++n) {
        const int column = lane.column(n, e);
        if (column >= at.head_width) continue;
        first_gradient[to + column] =
            Block::template narrow<S>(state.first.of[n][e] * in.shape.scale);
        if constexpr (kOfKeys) {
          second_gradient[to + column] = Block::template narrow<S>(state.second.of[n][e]);
        }
      }
    }
  }
};

}  // namespace nqd::engine::cuda::bodies

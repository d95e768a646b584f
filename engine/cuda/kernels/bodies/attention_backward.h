// blocked_attention_backward of engine/cpu/blocked_attention.h on the device, without atomics: one
// kernel sums over a key's queries (dk, dv), one over a query's keys (dq). Both compute the
// probabilities again from what forward kept.
#pragma once

#include "engine/cuda/kernels/bodies/attention_tiles.h"

namespace nqd::engine::cuda::bodies {

// inner[b, head, query] = d_out · out, the sum over keys of weight · d_weight: four lanes a row,
// each of packs t, t + 4, …, and then of the four.
template <typename S, int kWidth>
struct AttentionInner {
  static constexpr int kThreads = kAttentionThreads;
  static constexpr const char* kName = "attention_inner";
  static constexpr int kLanes = 4;
  float* inner;
  const S* d_out;
  const S* out;
  cpu::AttentionLayout layout;

  NQD_HOST_DEVICE std::int64_t items() const {
    return layout.batch * layout.heads * layout.sequence;
  }
  std::int64_t blocks() const { return divide_up(items() * kLanes, kThreads); }

  template <typename Block>
  NQD_DEVICE void operator()(Block& block) const {
    typename Block::template Own<float> own;
    const std::int64_t first = block.index() * (kThreads / kLanes);
    block.last([&](int thread) {
      const std::int64_t item = first + thread / kLanes;
      own[thread] = item < items() ? part<Block>(item, thread % kLanes) : 0.0F;
    });
    block.quads([&](int thread) -> float& { return own[thread]; }, Add{});
    block.last([&](int thread) {
      const std::int64_t item = first + thread / kLanes;
      if (thread % kLanes == 0 && item < items()) inner[item] = own[thread];
    });
  }

 private:
  template <typename Block>
  NQD_DEVICE float part(std::int64_t item, int lane) const {
    const Place place = place_of(item, layout.sequence);
    const Place head = place_of(place.row, layout.heads);
    const std::int64_t at = (head.row * layout.sequence + place.column) * layout.out_stride +
                            head.column * layout.head_width;
    float sum = 0;
    for (std::int64_t c = lane * kWidth; c < layout.head_width; c += kLanes * kWidth) {
      const Pack<S, kWidth> d = load<kWidth>(d_out + at + c);
      const Pack<S, kWidth> o = load<kWidth>(out + at + c);
      for (int k = 0; k < kWidth; ++k) {
        sum += Block::widen(d.values[k]) * Block::widen(o.values[k]);
      }
    }
    return sum;
  }
};

// What both kernels read.
template <typename S>
struct AttentionGradient {
  const S* d_out;
  const float* lse;
  const float* inner;
  const S* q;
  const S* k;
  const S* v;
  AttentionShape shape;
};

// The two numbers of a query and a key: its weight as the values are multiplied with it, and the
// gradient of its score.
struct ScoreGradient {
  float weight;
  float d_score;
};

template <int D, int R>
struct GradientTiles {
  HeadTile<D, R> queries;  // scaled
  HeadTile<D, R> d_out;
  HeadTile<D, R> keys;
  HeadTile<D, R> values;
  float weights[R][R + 1];
  float d_scores[R][R + 1];

  template <typename Block, typename S>
  NQD_DEVICE void fill_queries(int thread, const AttentionGradient<S>& in, std::int64_t b,
                               std::int64_t head, std::int64_t first) {
    const cpu::AttentionLayout& at = in.shape.layout;
    const std::int64_t row = b * at.sequence;
    const std::int64_t column = head * at.head_width;
    queries.template fill<Block>(thread, in.q + row * at.q_stride + column, at.q_stride, first,
                                 at.sequence, at.head_width, in.shape.scale, in.shape.packed);
    d_out.template fill<Block>(thread, in.d_out + row * at.out_stride + column, at.out_stride,
                               first, at.sequence, at.head_width, 1.0F, in.shape.packed);
  }
  template <typename Block, typename S>
  NQD_DEVICE void fill_keys(int thread, const AttentionGradient<S>& in, std::int64_t b,
                            std::int64_t kv_head, std::int64_t first) {
    const cpu::AttentionLayout& at = in.shape.layout;
    const std::int64_t from = b * at.sequence * at.kv_stride + kv_head * at.head_width;
    keys.template fill<Block>(thread, in.k + from, at.kv_stride, first, at.sequence, at.head_width,
                              1.0F, in.shape.packed);
    values.template fill<Block>(thread, in.v + from, at.kv_stride, first, at.sequence,
                                at.head_width, 1.0F, in.shape.packed);
  }

  // Of the thread's row of queries, every kOfRow-th key.
  template <typename S>
  NQD_DEVICE void fill_scores(int thread, const AttentionGradient<S>& in, std::int64_t b,
                              std::int64_t head, std::int64_t first_query, std::int64_t first_key) {
    using Share = TileShare<D, R>;
    const cpu::AttentionLayout& at = in.shape.layout;
    const int row = Share::row(thread);
    const std::int64_t query = first_query + row;
    const std::int64_t kept = (b * at.heads + head) * at.sequence + query;
    for (int j = Share::lane(thread); j < R; j += Share::kOfRow) {
      ScoreGradient gradient = {0, 0};
      if (in.shape.sees(query, first_key + j)) {
        const float weight = std::exp(dot(queries, row, keys, j) - in.lse[kept]);
        const float factor = in.shape.factor(b, head, query, first_key + j);
        const float d_weight = dot(d_out, row, values, j) * factor;
        gradient = {weight * factor, weight * (d_weight - in.inner[kept])};
      }
      weights[row][j] = gradient.weight;
      d_scores[row][j] = gradient.d_score;
    }
  }
};

// One block: R keys of a key head, over all heads and queries that see them.
template <typename S, int D, int R>
struct AttentionKeyGradient {
  static constexpr int kThreads = kAttentionThreads;
  static constexpr const char* kName = "attention_backward_keys";
  using Share = TileShare<D, R>;
  using Tiles = GradientTiles<D, R>;
  S* dk;
  S* dv;
  AttentionGradient<S> in;

  struct State {
    float dk[Share::kColumns];
    float dv[Share::kColumns];
  };

  std::int64_t blocks() const {
    const cpu::AttentionLayout& at = in.shape.layout;
    return at.batch * at.kv_heads * divide_up(at.sequence, R);
  }

  template <typename Block>
  NQD_DEVICE void operator()(Block& block) const {
    const cpu::AttentionLayout& at = in.shape.layout;
    const Place tile = place_of(block.index(), divide_up(at.sequence, R));
    const Place head = place_of(tile.row, at.kv_heads);
    const std::int64_t first_key = tile.column * R;
    const std::int64_t group = at.heads / at.kv_heads;
    Tiles& tiles = block.template shared<Tiles>();
    typename Block::template Own<State> states;
    block.each([&](int thread) {
      tiles.template fill_keys<Block>(thread, in, head.row, head.column, first_key);
      states[thread] = State{};
    });
    for (std::int64_t h = head.column * group; h < (head.column + 1) * group; ++h) {
      // Tiles of queries and keys have equal sizes: those before the keys' own see none of them.
      for (std::int64_t query = at.causal ? first_key : 0; query < at.sequence; query += R) {
        block.each([&](int thread) {
          tiles.template fill_queries<Block>(thread, in, head.row, h, query);
        });
        block.each(
            [&](int thread) { tiles.fill_scores(thread, in, head.row, h, query, first_key); });
        block.each([&](int thread) { add_queries(thread, tiles, states[thread]); });
      }
    }
    block.last([&](int thread) {
      const std::int64_t key = first_key + Share::row(thread);
      if (key >= at.sequence) return;
      write<Block>(thread, states[thread],
                   (head.row * at.sequence + key) * at.kv_stride + head.column * at.head_width);
    });
  }

 private:
  static NQD_DEVICE void add_queries(int thread, const Tiles& tiles, State& state) {
    const int key = Share::row(thread);
    for (int i = 0; i < R; ++i) {
      const float weight = tiles.weights[i][key];
      const float d_score = tiles.d_scores[i][key];
      NQD_UNROLL
      for (int c = 0; c < Share::kColumns; ++c) {
        const int column = Share::lane(thread) + c * Share::kOfRow;
        state.dv[c] += weight * tiles.d_out.of[i][column];
        state.dk[c] += d_score * tiles.queries.of[i][column];
      }
    }
  }

  template <typename Block>
  NQD_DEVICE void write(int thread, const State& state, std::int64_t row) const {
    NQD_UNROLL
    for (int c = 0; c < Share::kColumns; ++c) {
      const int column = Share::lane(thread) + c * Share::kOfRow;
      if (column >= in.shape.layout.head_width) continue;
      dk[row + column] = Block::template narrow<S>(state.dk[c]);
      dv[row + column] = Block::template narrow<S>(state.dv[c]);
    }
  }
};

// One block: R queries of a head, over all keys that they see.
template <typename S, int D, int R>
struct AttentionQueryGradient {
  static constexpr int kThreads = kAttentionThreads;
  static constexpr const char* kName = "attention_backward_queries";
  using Share = TileShare<D, R>;
  using Tiles = GradientTiles<D, R>;
  S* dq;
  AttentionGradient<S> in;

  struct State {
    float dq[Share::kColumns];
  };

  std::int64_t blocks() const {
    const cpu::AttentionLayout& at = in.shape.layout;
    return at.batch * at.heads * divide_up(at.sequence, R);
  }

  template <typename Block>
  NQD_DEVICE void operator()(Block& block) const {
    const cpu::AttentionLayout& at = in.shape.layout;
    const Place tile = place_of(block.index(), divide_up(at.sequence, R));
    const Place head = place_of(tile.row, at.heads);
    const std::int64_t kv_head = head.column / (at.heads / at.kv_heads);
    const std::int64_t first = tile.column * R;
    Tiles& tiles = block.template shared<Tiles>();
    typename Block::template Own<State> states;
    block.each([&](int thread) {
      tiles.template fill_queries<Block>(thread, in, head.row, head.column, first);
      states[thread] = State{};
    });
    const std::int64_t end = at.causal && first + R < at.sequence ? first + R : at.sequence;
    for (std::int64_t key = 0; key < end; key += R) {
      block.each(
          [&](int thread) { tiles.template fill_keys<Block>(thread, in, head.row, kv_head, key); });
      block.each(
          [&](int thread) { tiles.fill_scores(thread, in, head.row, head.column, first, key); });
      block.each([&](int thread) { add_keys(thread, tiles, states[thread]); });
    }
    block.last([&](int thread) {
      const std::int64_t query = first + Share::row(thread);
      if (query >= at.sequence) return;
      write<Block>(thread, states[thread],
                   (head.row * at.sequence + query) * at.q_stride + head.column * at.head_width);
    });
  }

 private:
  static NQD_DEVICE void add_keys(int thread, const Tiles& tiles, State& state) {
    const int row = Share::row(thread);
    for (int j = 0; j < R; ++j) {
      const float d_score = tiles.d_scores[row][j];
      NQD_UNROLL
      for (int c = 0; c < Share::kColumns; ++c) {
        state.dq[c] += d_score * tiles.keys.of[j][Share::lane(thread) + c * Share::kOfRow];
      }
    }
  }

  template <typename Block>
  NQD_DEVICE void write(int thread, const State& state, std::int64_t row) const {
    NQD_UNROLL
    for (int c = 0; c < Share::kColumns; ++c) {
      const int column = Share::lane(thread) + c * Share::kOfRow;
      if (column < in.shape.layout.head_width) {
        dq[row + column] = Block::template narrow<S>(state.dq[c] * in.shape.scale);
      }
    }
  }
};

template <typename S, typename Run>
void reference_attention_backward(const Run& run, S* dq, S* dk, S* dv,
                                  const AttentionGradient<S>& in) {
  with_head_tile(in.shape.layout.head_width, [&]<int D>() {
    // Four tiles and two squares of scores stay below the 48 KiB that need no opt-in.
    constexpr int kRows = 2048 / D;
    run(AttentionKeyGradient<S, D, kRows>{dk, dv, in});
    run(AttentionQueryGradient<S, D, kRows>{dq, in});
  });
}

}  // namespace nqd::engine::cuda::bodies

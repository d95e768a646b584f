// What the passes of attention on tensor cores share: tiles in the storage type, and products of
// them. Scores and sums are float; weights and their gradients are rounded to S where they are
// multiplied (Dao 2023, "FlashAttention-2").
#pragma once

#include "engine/cuda/kernels/bodies/attention_tiles.h"
#include "engine/cuda/kernels/mma.h"

namespace nqd::engine::cuda::bodies {

// R rows of a head, D columns of which the first `width` exist; a row is 16 bytes longer, so that
// the rows that a warp reads at a time begin in different banks.
template <typename S, int D, int R>
struct StoredTile {
  S of[R][D + 8];

  // Rows [first, first + R) of those up to `end`; zeros elsewhere.
  template <typename Block>
  NQD_DEVICE void fill(int thread, const S* head, std::int64_t stride, std::int64_t first,
                       std::int64_t end, std::int64_t width, bool packed) {
    if (packed) {
      fill_by<Block, kPackWidth<S>>(thread, head, stride, first, end, width);
    } else {
      fill_by<Block, 1>(thread, head, stride, first, end, width);
    }
  }
  // The same, there when block.copied() returns.
  template <typename Block>
  NQD_DEVICE void begin_fill(Block& block, int thread, const S* head, std::int64_t stride,
                             std::int64_t first, std::int64_t end, std::int64_t width,
                             bool packed) {
    if (!packed) return fill_by<Block, 1>(thread, head, stride, first, end, width);
    constexpr int kWidth = kPackWidth<S>;
    constexpr int kPacksOfRow = D / kWidth;
    for (int i = thread; i < R * kPacksOfRow; i += Block::kThreads) {
      const int row = i / kPacksOfRow;
      const int column = i % kPacksOfRow * kWidth;
      const bool exists = first + row < end && column < width;
      block.copy_async(&of[row][column], exists ? head + (first + row) * stride + column : head,
                       exists ? 16 : 0);
    }
  }

  // Of the four matrices from (row, column) on: where the row of one begins.
  NQD_DEVICE const S* row_of(const MatrixRow& at, int row, int column) const {
    return &of[row + at.down * 8 + at.row][column + at.right * 8];
  }

 private:
  template <typename Block, int kWidth>
  NQD_DEVICE void fill_by(int thread, const S* head, std::int64_t stride, std::int64_t first,
                          std::int64_t end, std::int64_t width) {
    constexpr int kPacksOfRow = D / kWidth;
    for (int i = thread; i < R * kPacksOfRow; i += Block::kThreads) {
      const int row = i / kPacksOfRow;
      const int column = i % kPacksOfRow * kWidth;
      Pack<S, kWidth> pack = {};
      if (first + row < end && column < width) {
        pack = load<kWidth>(head + (first + row) * stride + column);
      }
      store(&of[row][column], pack);
    }
  }
};

// A thread's part of a warp's 16 rows of kTiles · 8 columns.
template <int kTiles>
struct Accumulator {
  float of[kTiles][4];
};

// acc(thread) += rows of `left` (16 a warp) times rows of `right`, over the tiles' columns.
template <typename S, int D, int R, int kRight, int kTiles, typename Block, typename Get>
NQD_DEVICE void multiply_rows(Block& block, const StoredTile<S, D, R>& left,
                              const StoredTile<S, D, kRight>& right, const Get& acc) {
  static_assert(kTiles * 8 == kRight && kTiles % 2 == 0);
  typename Block::template Own<Words> a, b;
  NQD_UNROLL
  for (int k = 0; k < D; k += 16) {
    block.template matrices<false>(a, [&](int thread) {
      return left.row_of(MatrixRow::downwards(thread), Lane(thread).warp * 16, k);
    });
    NQD_UNROLL
    for (int n = 0; n < kTiles; n += 2) {
      block.template matrices<false>(
          b, [&](int thread) { return right.row_of(MatrixRow::across(thread), n * 8, k); });
      NQD_UNROLL
      for (int tile = 0; tile < 2; ++tile) {
        block.template mma<S>([&](int thread) {
          const Words& x = a[thread];
          const Words& y = b[thread];
          return Mma<S>{{x.of[0], x.of[1], x.of[2], x.of[3]},
                        {y.of[2 * tile], y.of[2 * tile + 1]},
                        acc(thread).of[n + tile]};
        });
      }
    }
  }
}

template <typename S, typename Block>
NQD_DEVICE std::uint32_t packed_pair(float low, float high) {
  return Block::template narrow<S>(low).bits |
         static_cast<std::uint32_t>(Block::template narrow<S>(high).bits) << 16;
}

// acc(thread) += weights(thread), rounded to S, times the rows of `right`: the columns of weights
// are those rows.
template <typename S, int D, int R, int kTiles, typename Block, typename Weights, typename Get>
NQD_DEVICE void add_weighted_rows(Block& block, const Weights& weights,
                                  const StoredTile<S, D, R>& right, const Get& acc) {
  static_assert(kTiles * 8 == R);
  typename Block::template Own<Words> b;
  NQD_UNROLL
  for (int j = 0; j < kTiles; j += 2) {
    NQD_UNROLL
    for (int n = 0; n < D / 8; n += 2) {
      block.template matrices<true>(
          b, [&](int thread) { return right.row_of(MatrixRow::downwards(thread), j * 8, n * 8); });
      NQD_UNROLL
      for (int tile = 0; tile < 2; ++tile) {
        block.template mma<S>([&](int thread) {
          const auto& w = weights(thread).of;
          const Words& y = b[thread];
          return Mma<S>{
              {packed_pair<S, Block>(w[j][0], w[j][1]), packed_pair<S, Block>(w[j][2], w[j][3]),
               packed_pair<S, Block>(w[j + 1][0], w[j + 1][1]),
               packed_pair<S, Block>(w[j + 1][2], w[j + 1][3])},
              {y.of[2 * tile], y.of[2 * tile + 1]},
              acc(thread).of[n + tile]};
        });
      }
    }
  }
}

}  // namespace nqd::engine::cuda::bodies

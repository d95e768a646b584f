// What the passes of attention on tensor cores share: tiles in the storage type, and products of
// them. Scores and sums are float; weights and their gradients are rounded to S where they are
// multiplied (Dao 2023, "FlashAttention-2").
#pragma once

#include <cstring>

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

  // Two neighbours of a row, the left one (of an even column) in the lower half.
  NQD_DEVICE std::uint32_t pair(int row, int column) const {
    std::uint32_t word;
    std::memcpy(&word, __builtin_assume_aligned(&of[row][column], 4), sizeof word);
    return word;
  }
  // Two neighbours of a column, the upper one in the lower half.
  NQD_DEVICE std::uint32_t across(int row, int column) const {
    return of[row][column].bits | static_cast<std::uint32_t>(of[row + 1][column].bits) << 16;
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
  static_assert(kTiles * 8 == kRight);
  NQD_UNROLL
  for (int k = 0; k < D; k += 16) {
    NQD_UNROLL
    for (int n = 0; n < kTiles; ++n) {
      block.template mma<S>([&](int thread) {
        const Lane lane(thread);
        const int row = lane.row(0), column = k + lane.t * 2, other = n * 8 + lane.g;
        return Mma<S>{{left.pair(row, column), left.pair(row + 8, column),
                       left.pair(row, column + 8), left.pair(row + 8, column + 8)},
                      {right.pair(other, column), right.pair(other, column + 8)},
                      acc(thread).of[n]};
      });
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
  NQD_UNROLL
  for (int j = 0; j < kTiles; j += 2) {
    NQD_UNROLL
    for (int n = 0; n < D / 8; ++n) {
      block.template mma<S>([&](int thread) {
        const Lane lane(thread);
        const auto& w = weights(thread).of;
        const int row = j * 8 + lane.t * 2, column = n * 8 + lane.g;
        return Mma<S>{
            {packed_pair<S, Block>(w[j][0], w[j][1]), packed_pair<S, Block>(w[j][2], w[j][3]),
             packed_pair<S, Block>(w[j + 1][0], w[j + 1][1]),
             packed_pair<S, Block>(w[j + 1][2], w[j + 1][3])},
            {right.across(row, column), right.across(row + 8, column)},
            acc(thread).of[n]};
      });
    }
  }
}

}  // namespace nqd::engine::cuda::bodies

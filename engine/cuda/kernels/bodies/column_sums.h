// Sums over rows, in two stages and one fixed order.
//
// The rows are cut into canonical blocks as engine/cpu/row_sums.h cuts them, and a canonical block
// into chunks. A chunk's sum: row lane l adds rows l, l + 8, … of the chunk, then the eight lanes
// are added in ascending order. A canonical block's sum is the chain of its chunks; the blocks are
// added in the tree. Chunks depend on the rows of a canonical block alone, so ranks that hold some
// of the blocks get nodes of the same tree, as on the CPU.
#pragma once

#include <algorithm>

#include "engine/cuda/kernels/body.h"
#include "engine/cuda/kernels/norms.h"

namespace nqd::engine::cuda::bodies {

inline constexpr int kRowLanes = 8;
inline constexpr int kColumnThreads = kBlockThreads / kRowLanes;

// How the rows are cut.
struct RowChunks {
  std::int64_t rows_of_block;  // of a canonical block
  std::int64_t rows_of_chunk;
  std::int64_t chunks_of_block;
  std::int64_t blocks;  // canonical

  NQD_HOST_DEVICE std::int64_t chunks() const { return chunks_of_block * blocks; }
};

// At most 128 chunks of a canonical block, of at least 64 rows: enough blocks of threads for a
// device, and little to add in the second stage.
inline RowChunks row_chunks(std::int64_t rows, std::int64_t blocks) {
  const std::int64_t of_block = rows / blocks;
  const std::int64_t of_chunk =
      std::max<std::int64_t>(64, divide_up(divide_up(of_block, 128), kRowLanes) * kRowLanes);
  return {of_block, of_chunk, divide_up(of_block, of_chunk), blocks};
}

// scratch[chunk, sum, column] from Terms, which has kName, kSums, kWidth and
//   add<Block, kWidth>(row, column, sums)  sums[s][k] += the terms of (row, column + k).
template <typename Terms, int kWidth>
struct ChunkSums {
  static constexpr int kThreads = kBlockThreads;
  static constexpr const char* kName = Terms::kName;
  static constexpr int kSums = Terms::kSums;
  static constexpr int kTile = kColumnThreads * kWidth;
  Terms terms;
  float* scratch;
  RowChunks cut;
  std::int64_t width;

  struct Sums {
    float of[kSums][kWidth];
  };
  struct Shared {
    Sums of_thread[kThreads];
  };

  std::int64_t blocks() const { return cut.chunks() * divide_up(width, kTile); }

  template <typename Block>
  NQD_DEVICE void operator()(Block& block) const {
    const Place place = place_of(block.index(), divide_up(width, kTile));
    const Place chunk = place_of(place.row, cut.chunks_of_block);
    const std::int64_t begin = chunk.column * cut.rows_of_chunk;
    const std::int64_t full = begin + cut.rows_of_chunk;
    const std::int64_t end = full < cut.rows_of_block ? full : cut.rows_of_block;
    const std::int64_t first_row = chunk.row * cut.rows_of_block;
    Shared& shared = block.template shared<Shared>();
    block.each([&](int thread) {
      const std::int64_t column = place.column * kTile + thread % kColumnThreads * kWidth;
      Sums sums = {};
      if (column < width) {
        for (std::int64_t row = begin + thread / kColumnThreads; row < end; row += kRowLanes) {
          terms.template add<Block, kWidth>(first_row + row, column, sums.of);
        }
      }
      shared.of_thread[thread] = sums;
    });
    block.last([&](int thread) {
      const std::int64_t column = place.column * kTile + thread * kWidth;
      if (thread >= kColumnThreads || column >= width) return;
      Sums sums = shared.of_thread[thread];
      for (int lane = 1; lane < kRowLanes; ++lane) {
        const Sums& other = shared.of_thread[lane * kColumnThreads + thread];
        for (int s = 0; s < kSums; ++s) {
          for (int k = 0; k < kWidth; ++k) sums.of[s][k] += other.of[s][k];
        }
      }
      for (int s = 0; s < kSums; ++s) {
        float* to = scratch + (place.row * kSums + s) * width + column;
        for (int k = 0; k < kWidth; ++k) to[k] = sums.of[s][k];
      }
    });
  }
};

template <int kSums>
struct Gradients {
  float* of[kSums];
};

// gradients.of[s][column] += the sum of all chunks.
template <int kSums>
struct AddChunks {
  static constexpr int kThreads = 64;
  static constexpr const char* kName = "add_chunks";
  Gradients<kSums> gradients;
  const float* scratch;
  RowChunks cut;
  std::int64_t width;

  std::int64_t blocks() const { return divide_up(width * kSums, kThreads); }

  template <typename Block>
  NQD_DEVICE void operator()(Block& block) const {
    block.last([&](int thread) {
      const std::int64_t i = block.index() * kThreads + thread;
      if (i >= width * kSums) return;
      const float* from = scratch + i;
      TreeSum<float> total;
      for (std::int64_t b = 0; b < cut.blocks; ++b) {
        float sum = 0;
        for (std::int64_t chunk = 0; chunk < cut.chunks_of_block; ++chunk) {
          sum += *from;
          from += width * kSums;
        }
        total.add(sum);
      }
      const Place place = place_of(i, width);
      // An index that is not constant would move the pointers to memory.
      NQD_UNROLL
      for (int s = 0; s < kSums; ++s) {
        if (place.row == s) gradients.of[s][place.column] += total.total();
      }
    });
  }
};

template <typename Run, typename Terms>
void add_row_sums(const Run& run, const Terms& terms, const Gradients<Terms::kSums>& gradients,
                  std::int64_t rows, std::int64_t width, std::int64_t blocks, float* scratch,
                  bool packed) {
  const RowChunks cut = row_chunks(rows, blocks);
  if (packed) {
    run(ChunkSums<Terms, Terms::kWidth>{terms, scratch, cut, width});
  } else {
    run(ChunkSums<Terms, 1>{terms, scratch, cut, width});
  }
  run(AddChunks<Terms::kSums>{gradients, scratch, cut, width});
}

template <typename S>
struct ColumnTerms {
  static constexpr const char* kName = "add_column_sums";
  static constexpr int kSums = 1;
  static constexpr int kWidth = kPackWidth<S>;
  const S* x;
  std::int64_t stride;

  template <typename Block, int kCount>
  NQD_DEVICE void add(std::int64_t row, std::int64_t column, float (&sums)[1][kCount]) const {
    const Pack<S, kCount> in = load<kCount>(x + row * stride + column);
    for (int k = 0; k < kCount; ++k) sums[0][k] += Block::widen(in.values[k]);
  }
};

template <typename S, typename Run>
void add_column_sums(const Run& run, float* gradient, const S* x, std::int64_t rows,
                     std::int64_t width, std::int64_t stride, std::int64_t blocks, float* scratch) {
  const bool packed = are_aligned(x) && width % kPackWidth<S> == 0 && stride % kPackWidth<S> == 0;
  add_row_sums(run, ColumnTerms<S>{x, stride}, {{gradient}}, rows, width, blocks, scratch, packed);
}

}  // namespace nqd::engine::cuda::bodies

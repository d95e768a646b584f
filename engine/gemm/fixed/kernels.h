// The innermost loops of the fixed-order product, once for each kind of CPU. All give the same
// bits; they differ in the width of vectors and in the size of a tile.
//
// A kernel's file is compiled for its CPU, so this header must define no function that another file
// could also emit: the linker keeps one copy, perhaps the one that this CPU cannot run.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/dtype.h"

namespace nqd::engine::fixed {

inline constexpr int kMaxTileFloats = 512;
inline constexpr int kMaxAddends = 33;  // one a level of the tree over 2^31 slices, and C

struct Addend {
  const float* data;
  std::int64_t stride;
};

// One tile of rows × columns elements: out = addends[…] + (… (addends[0] + chain)), where the chain
// starts from `start` (null: from zeros) and takes k steps.
struct Tile {
  const float* a;      // a[row · a_row + k · a_k]
  std::int64_t a_row;  // of the packed form 1, and a_k the rows of the largest tile
  std::int64_t a_k;
  const float* b;  // b[k · b_k + column]
  std::int64_t b_k;
  std::int64_t k;
  const float* start;
  std::int64_t start_stride;
  const Addend* addends;
  int addend_count;
  float* out;
  std::int64_t out_stride;
};
using TileFunction = void (*)(const Tile&);

// Part of an operand, packed: panels of `width` items (rows of A, columns of B), one after another,
// each k by k: out[panel · width · k + step · width + i] = alpha · in(step, panel · width + i),
// widened to float32; zeros for items from `count` on.
struct Packing {
  const void* in;        // of step 0, item 0
  DType type;            // float32, bfloat16 or float16
  std::int64_t stride;   // elements between neighbours along the direction that is not contiguous
  bool k_is_contiguous;  // else the items are
  std::int64_t k;
  std::int64_t count;
  std::int64_t width;  // a multiple of 8; with AVX2 also 6; portable: any
  float alpha;
  float* out;
};
using PackFunction = void (*)(const Packing&);

struct KernelSet {
  const char* name;         // "avx512"
  const char* description;  // "avx512 8x48"
  int rows;                 // of the largest tile
  int lanes;                // of a vector
  int vectors;              // of the largest tile, side by side
  // Whether reading a transposed A where it lies beats packing it: a tile's rows are half a cache
  // line or more, and its columns so many that few tiles read the same rows.
  bool reads_transposed_a;
  // [packed ? 1 : 0][rows − 1][vectors − 1], flat.
  const TileFunction* tiles;
  PackFunction pack;

  TileFunction tile(bool packed, int tile_rows, int tile_vectors) const {
    return tiles[((packed ? rows : 0) + tile_rows - 1) * vectors + tile_vectors - 1];
  }
};

const KernelSet& portable_kernels();
// Null where this build or this CPU has no such instructions.
const KernelSet* avx2_kernels();
const KernelSet* avx512_kernels();

// The kernel of that name, or null: unknown, or not for this CPU.
const KernelSet* find_kernels(std::string_view name);
const KernelSet& best_kernels();

}  // namespace nqd::engine::fixed

// Products of small tiles by the tensor cores, as kernel bodies see them: the PTX instruction
// mma.m16n8k16 (PTX ISA, "Matrix fragments for mma.m16n8k16"), C [16, 8] += A [16, 16] · B [16, 8],
// of a warp together. Its 32 lanes hold the operands in parts; with g = lane / 4, t = lane mod 4:
//
//   a[0], a[1]  A(g, 2t) and A(g + 8, 2t), each with its right neighbour in the upper half
//   a[2], a[3]  A(g, 2t + 8) and A(g + 8, 2t + 8), likewise
//   b[0], b[1]  B(2t, g) and B(2t + 8, g), each with its lower neighbour in the upper half
//   c[0..3]     C(g, 2t), C(g, 2t + 1), C(g + 8, 2t), C(g + 8, 2t + 1)
//
// A Block gives for it
//   mma<S>(f)         f(thread) returns the thread's Mma<S>; products of S are added in float,
//   quads(f, merge)   f(thread) refers to a value: the merge of those of four adjacent lanes,
//   barrier().
#pragma once

#include <cstdint>

#include "engine/cuda/kernels/body.h"

namespace nqd::engine::cuda {

// S is BFloat16 or Float16.
template <typename S>
struct Mma {
  std::uint32_t a[4];
  std::uint32_t b[2];
  float* c;
};

// The place of a thread in its warp and of its warp in the block.
struct Lane {
  int warp, g, t;

  explicit NQD_DEVICE Lane(int thread) : warp(thread / 32), g(thread % 32 / 4), t(thread % 4) {}
  // Of C's element e of tile n: the row among those of the block's warps, 16 each, and the column.
  NQD_DEVICE int row(int e) const { return warp * 16 + g + (e < 2 ? 0 : 8); }
  NQD_DEVICE int column(int n, int e) const { return n * 8 + t * 2 + e % 2; }
};

}  // namespace nqd::engine::cuda

// Products of small tiles by the tensor cores, as kernel bodies see them: the PTX instruction
// mma.m16n8k16 (PTX ISA, "Matrix fragments for mma.m16n8k16"), C [16, 8] += A [16, 16] · B [16, 8],
// of a warp together. Its 32 lanes hold the operands in parts; with g = lane / 4, t = lane mod 4:
//
//   a[0], a[1]  A(g, 2t) and A(g + 8, 2t), each with its right neighbour in the upper half
//   a[2], a[3]  A(g, 2t + 8) and A(g + 8, 2t + 8), likewise
//   b[0], b[1]  B(2t, g) and B(2t + 8, g), each with its lower neighbour in the upper half
//   c[0..3]     C(g, 2t), C(g, 2t + 1), C(g + 8, 2t), C(g + 8, 2t + 1)
//
// Its operands come from shared memory by the instruction ldmatrix (PTX ISA, the same name): four
// matrices [8, 8] of 16-bit elements at a time, of a warp together. Lane i names row i mod 8 of
// matrix i / 8, whose eight elements begin at a multiple of 16 bytes, and receives of matrix m
//
//   words.of[m]       M(g, 2t), with its right neighbour in the upper half;
//   transposed        M(2t, g), with its lower neighbour.
//
// A Block gives for them
//   mma<S>(f)         f(thread) returns the thread's Mma<S>; products of S are added in float,
//   matrices<kTransposed>(words, f)  f(thread) returns where its row begins; words[thread] is set,
//   quads(f, merge)   f(thread) refers to a value: the merge of those of four adjacent lanes,
//   barrier(),
//   copy_async(to, from, count)  16 bytes of shared memory become the first `count` bytes, 0 or 16,
//                     of `from` and zeros, at some time until
//   copied()          all copies that any thread began are there; a barrier.
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

// Two elements of 16 bits in each.
struct Words {
  std::uint32_t of[4];
};

// The row that a thread names of four matrices, two by two: `row` of the one that lies `down` and
// to the `right` of the first.
struct MatrixRow {
  int row, down, right;

  // The second lies to the right of the first, the third below it; or the other way round.
  static NQD_DEVICE MatrixRow across(int thread) {
    const int lane = thread % 32;
    return {lane % 8, lane / 16, lane / 8 % 2};
  }
  static NQD_DEVICE MatrixRow downwards(int thread) {
    const int lane = thread % 32;
    return {lane % 8, lane / 8 % 2, lane / 16};
  }
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

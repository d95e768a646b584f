// Algorithms in which ranks exchange with partners at distances 1, 2, 4, …: latency logarithmic in
// n. S = bytes of the full vector, m = the largest power of two <= n. When n > m, the first
// 2(n − m) ranks fold in pairs first: the even one sends its vector to the odd one, which goes on
// for both and hands the result back.
//
// Partners add in the order of their ranks, and nearest partners add first: for a power of two the
// sum has the bits of reduce_tree.h. All ranks end with the same bits. Nothing is sent for an empty
// vector.
#pragma once

#include <cstddef>
#include <span>

#include "collectives/scratch.h"
#include "collectives/transport.h"

namespace nqd::collectives {

// The whole vector goes to each partner. Steps log2 m (+ 2); wire bytes S·log2 m, one S more for
// the odd member of a pair, S for the even one. Scratch: S. `in` and `out` are the same span or do
// not overlap.
void recursive_doubling_all_reduce(Transport& transport, Scratch& scratch,
                                   std::span<const std::byte> in, std::span<std::byte> out,
                                   DType type, ReduceOp op);

// Halving: partners swap halves of what they are still responsible for, until each holds one chunk
// of m, whole; doubling: the same way back. Steps 2·log2 m (+ 2); wire bytes S − chunk(r), then r's
// growing block, where r is the place with its bits reversed. Scratch: S.
void halving_doubling_all_reduce(Transport& transport, Scratch& scratch,
                                 std::span<const std::byte> in, std::span<std::byte> out,
                                 DType type, ReduceOp op);

// The halves alone, for n a power of two: farthest partners first, so that rank i ends with (begins
// from) chunk i. Steps log2 n; wire bytes S − chunk(i), and i's growing block. Scratch of the
// halving: 2S.
void halving_reduce_scatter(Transport& transport, Scratch& scratch, std::span<const std::byte> in,
                            std::span<std::byte> out, DType type, ReduceOp op);
void doubling_all_gather(Transport& transport, std::span<const std::byte> in,
                         std::span<std::byte> out, DType type);

}  // namespace nqd::collectives

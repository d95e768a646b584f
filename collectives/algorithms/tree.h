// Binomial tree algorithms: rank r's parent clears r's lowest set bit. Latency logarithmic in n,
// the whole vector on every edge, in pieces (pieces.h) of which one is added, or sent on, while the
// next arrives; a vector counts as one message. S = bytes of the vector, P of its longest piece, c
// children of the rank.
#pragma once

#include <cstddef>
#include <span>

#include "collectives/scratch.h"
#include "collectives/transport.h"

namespace nqd::collectives {

// `data` of `root` overwrites that of the others. Steps ⌈log2 n⌉; a rank sends S to each child: the
// root ⌈log2 n⌉·S, a leaf nothing. Empty data sends nothing.
void tree_broadcast(Transport& transport, std::span<std::byte> data, int root);

// Reduction to rank 0, children nearest first, then broadcast: one order of additions, so all ranks
// end with the same bits. Steps 2⌈log2 n⌉; a rank sends S to its parent (not rank 0) and S to each
// child. Scratch on ranks that have children: S, or 2cP for a vector of several pieces.
void tree_all_reduce(Transport& transport, Scratch& scratch, std::span<const std::byte> in,
                     std::span<std::byte> out, DType type, ReduceOp op);

// Dissemination barrier: in round k every rank signals the one 2^k to its right. ⌈log2 n⌉ steps and
// empty messages a rank.
void dissemination_barrier(Transport& transport);

// `out` counts on the root alone, where it may be `in`. Steps ⌈log2 n⌉; wire bytes S from every
// rank but the root. Children are added in the order of their distance. Scratch on ranks that have
// children: as tree_all_reduce, and on those that are not the root S or 2P more.
void tree_reduce(Transport& transport, Scratch& scratch, std::span<const std::byte> in,
                 std::span<std::byte> out, DType type, ReduceOp op, int root);

}  // namespace nqd::collectives

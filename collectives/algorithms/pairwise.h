// Algorithms in which every rank exchanges with every other in n−1 steps: in step s with the ranks
// s places to its right and left. S = bytes of the full vector. Empty chunks are not sent.
#pragma once

#include <cstddef>
#include <span>

#include "collectives/communicator.h"
#include "collectives/scratch.h"
#include "collectives/transport.h"

namespace nqd::collectives {

// `in` holds n parts (types.h, chunk_of), part i for rank i; `out` receives this rank's part of
// every rank's vector, in rank order. `in` and `out` do not overlap. Wire bytes S − chunk(i). No
// scratch.
void pairwise_all_to_all(Transport& transport, std::span<const std::byte> in,
                         std::span<std::byte> out, DType type);

// The same with parts of any length (communicator.h, all_to_all_v). Empty parts are sent too, so
// that a length that the two ends do not agree on never goes unseen: n−1 messages. Wire bytes: all
// of `in` but this rank's own part.
void pairwise_all_to_all_v(Transport& transport, const CollectiveCall& call);

// As ring_reduce_scatter, but every contribution reaches its owner as it is, who adds them in the
// canonical order (reduce_tree.h); half-width floats are rounded once. Wire bytes S − chunk(i).
// Scratch: n chunks of this rank.
void pairwise_reduce_scatter(Transport& transport, Scratch& scratch, std::span<const std::byte> in,
                             std::span<std::byte> out, DType type, ReduceOp op);

// That, then ring_all_gather of the parts: canonical on any number of ranks. Steps 2(n−1); wire
// bytes 2S − chunk(i) − chunk(i+1). `in` and `out` are the same span or do not overlap.
void pairwise_all_reduce(Transport& transport, Scratch& scratch, std::span<const std::byte> in,
                         std::span<std::byte> out, DType type, ReduceOp op);

}  // namespace nqd::collectives

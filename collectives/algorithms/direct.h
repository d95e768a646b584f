// Collectives in which the ranks of one host read and write each other's buffers in place
// (collectives/shared/peer_memory.h). Reductions are canonical (reduce_tree.h). S = bytes of the
// full vector, n = ranks, part(i) = bytes of part i (types.h: line_chunk_of for all_reduce and
// reduce, chunk_of for the others).
//
// Each returns what this rank read from its peers' memory and what of its work went to theirs,
// which is what rank_traffic says; or nothing when some rank's buffers are private and cannot be
// pulled: every rank then gets the same answer and nothing was done. Vectors up to
// kDirectSmallBytes pass through slots instead: one wait, and every rank reads all of them.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "collectives/cost.h"
#include "collectives/scratch.h"
#include "collectives/shared/peer_memory.h"
#include "collectives/types.h"

namespace nqd::collectives {

// Open buffers: rank i reads part i of every input once and writes part i of every output once, in
// one pass between two waits. Private buffers: pulls part i of n−1 inputs block by block, then the
// other parts from those who reduced them, with three waits. 2(n−1)·part(i) bytes; small (n−1)·S.
std::optional<RankTraffic> direct_all_reduce(PeerMemory& peers, Scratch& scratch,
                                             std::span<const std::byte> in,
                                             std::span<std::byte> out, DType type, ReduceOp op);

// Rank i reads part i of every other input: (n−1)·part(i); small (n−1)·S.
std::optional<RankTraffic> direct_reduce_scatter(PeerMemory& peers, Scratch& scratch,
                                                 std::span<const std::byte> in,
                                                 std::span<std::byte> out, DType type, ReduceOp op);

// Rank i reads the parts of the others: S − part(i).
std::optional<RankTraffic> direct_all_gather(PeerMemory& peers, std::span<const std::byte> in,
                                             std::span<std::byte> out, DType type);

// All but the root read S from it.
std::optional<RankTraffic> direct_broadcast(PeerMemory& peers, std::span<std::byte> data, int root);

}  // namespace nqd::collectives

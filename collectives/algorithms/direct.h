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

#include "collectives/communicator.h"
#include "collectives/cost.h"
#include "collectives/scratch.h"
#include "collectives/shared/peer_memory.h"
#include "collectives/types.h"

namespace nqd::collectives {

// Open buffers: rank i reads part i of every input once and writes part i of every output once, in
// one pass between two waits. Private buffers pass through slots of shared memory, block by block
// (direct_staged.cpp): one wait for every block of 1 MiB / n of a part, and two more.
// 2(n−1)·part(i) bytes; small (n−1)·S.
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

// `out` counts on the root alone. Rank i reduces part i of the inputs into the root's output, or,
// where some buffer is private, into shared memory of its own that the root then reads:
// (n−1)·part(i), and part(i) more for all but the root.
std::optional<RankTraffic> direct_reduce(PeerMemory& peers, Scratch& scratch,
                                         std::span<const std::byte> in, std::span<std::byte> out,
                                         DType type, ReduceOp op, int root);

// The root reads the others' parts: S − part(root). `out` counts on the root alone. Throws NQD4005
// when a part has another length than chunk_of says.
std::optional<RankTraffic> direct_gather(PeerMemory& peers, std::span<const std::byte> in,
                                         std::span<std::byte> out, DType type, int root);

// All but the root read their part of its input. `in` counts on the root alone. Throws as gather.
std::optional<RankTraffic> direct_scatter(PeerMemory& peers, std::span<const std::byte> in,
                                          std::span<std::byte> out, DType type, int root);

// Rank i reads its part of every other input: (n−1)·part(i).
std::optional<RankTraffic> direct_all_to_all(PeerMemory& peers, std::span<const std::byte> in,
                                             std::span<std::byte> out, DType type);

// The same with parts of any length (communicator.h, all_to_all_v), after an exchange of the
// counts: what the others give this rank. Throws NQD4005 when that is not what it expects. At most
// kDirectSmallBytes / 8 ranks.
std::optional<RankTraffic> direct_all_to_all_v(PeerMemory& peers, const CollectiveCall& call);

}  // namespace nqd::collectives

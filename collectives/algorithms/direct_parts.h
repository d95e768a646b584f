// What the direct collectives share. Only collectives/algorithms/direct*.cpp include this.
#pragma once

#include <cstddef>
#include <span>

#include "collectives/algorithms/copy.h"
#include "collectives/algorithms/parts.h"
#include "collectives/scratch.h"
#include "collectives/shared/peer_memory.h"

namespace nqd::collectives {

inline std::size_t size_of(const PeerMemory& peers) {
  return static_cast<std::size_t>(peers.size());
}
inline std::size_t rank_of(const PeerMemory& peers) {
  return static_cast<std::size_t>(peers.rank());
}

// Whether the open call can run.
inline bool reachable(const PeerMemory& peers) { return peers.all_open() || peers.can_pull(); }

// Reduces `part` of all inputs, which may be private, into each of `outs`, which this rank can
// write.
void reduce_part(PeerMemory& peers, Scratch& scratch, const Bytes& part,
                 std::span<std::byte* const> outs, const DirectCall& call);

// The open call, an all_reduce, through slots in shared memory: rank i copies block k of the other
// parts of its vector there, then reads and reduces block k of part i from the slots of all, then
// copies block k of the others' results; one wait a block, with each of the three at another block.
// A rank may return before others have read its last result. `past_caches`: outputs are streamed.
void staged_all_reduce(PeerMemory& peers, std::span<const std::byte> in, std::span<std::byte> out,
                       const DirectCall& call, bool past_caches);

}  // namespace nqd::collectives

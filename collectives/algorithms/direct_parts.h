// What the direct collectives share. Only collectives/algorithms/direct*.cpp include this.
#pragma once

#include <cstddef>
#include <span>

#include "collectives/algorithms/copy.h"
#include "collectives/scratch.h"
#include "collectives/shared/peer_memory.h"

namespace nqd::collectives {

inline std::size_t size_of(const PeerMemory& peers) {
  return static_cast<std::size_t>(peers.size());
}
inline std::size_t rank_of(const PeerMemory& peers) {
  return static_cast<std::size_t>(peers.rank());
}

// A range of a vector.
struct Bytes {
  std::size_t begin = 0;
  std::size_t count = 0;
};
inline Bytes in_bytes(const Chunk& chunk, DType type) {
  return {chunk.begin * size_bytes(type), chunk.count * size_bytes(type)};
}
inline Bytes line_part(std::size_t vector_bytes, DType type, std::size_t n, std::size_t i) {
  const std::size_t element = size_bytes(type);
  return in_bytes(line_chunk_of(vector_bytes / element, element, n, i), type);
}
inline Bytes chunk_part(std::size_t vector_bytes, DType type, std::size_t n, std::size_t i) {
  return in_bytes(chunk_of(vector_bytes / size_bytes(type), n, i), type);
}

// Whether the open call can run.
inline bool reachable(const PeerMemory& peers) { return peers.all_open() || peers.can_pull(); }

// Reduces `part` of all inputs, which may be private, into each of `outs`, which this rank can
// write.
void reduce_part(PeerMemory& peers, Scratch& scratch, const Bytes& part,
                 std::span<std::byte* const> outs, const DirectCall& call);

}  // namespace nqd::collectives

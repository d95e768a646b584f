// Long messages travel in pieces, so that a piece is added, or sent on, while the next one arrives,
// and is still in the cache when it is.
#pragma once

#include <algorithm>
#include <cstddef>

#include "collectives/types.h"

namespace nqd::collectives {

// Half of the longest segment of Gloo's ring; other lengths were not measured.
inline constexpr std::size_t kPieceBytes = std::size_t{512} << 10;

// How many pieces a message of `bytes` bytes travels in; 1 for none.
constexpr std::size_t pieces_of(std::size_t bytes) {
  return std::max<std::size_t>(1, (bytes + kPieceBytes - 1) / kPieceBytes);
}

// Bytes of the receive buffer of a ring all_reduce whose longest chunk is `chunk` elements: the
// chunk, or the two pieces of it that arrive and are added.
constexpr std::size_t ring_scratch_bytes(std::size_t chunk, std::size_t element_bytes) {
  const std::size_t pieces = pieces_of(chunk * element_bytes);
  if (pieces == 1) return chunk * element_bytes;
  return 2 * chunk_of(chunk, pieces, 0).count * element_bytes;
}

}  // namespace nqd::collectives

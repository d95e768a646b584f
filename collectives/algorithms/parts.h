// Where the parts of a vector lie, in bytes.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "collectives/types.h"

namespace nqd::collectives {

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

// Parts of `counts` elements, one behind the other.
std::vector<Bytes> parts_in_bytes(std::span<const std::size_t> counts, DType type);

// Throws Error (kFault, NQD4005) unless `rank` of the group gives as many bytes as are expected.
void check_part(Collective collective, int rank, std::size_t given, std::size_t expected);

}  // namespace nqd::collectives

// The reduction of the vectors of all ranks at once, in the canonical order: one fixed binary tree
// over the ranks' index, split at the largest power of two below the number of vectors. It is the
// tree in which nearest-first halving adds, and its result depends on the order of the vectors
// alone, not on which rank adds what.
#pragma once

#include <cstddef>
#include <span>

#include "base/dtype.h"
#include "collectives/types.h"

namespace nqd::collectives {

// Every outs[k] receives the reduction of `sources` (at least one), `bytes` bytes each. An output
// may be a source. Half-width floats are added in float32 and rounded once, at the end. kAvg
// divides by the number of sources. The first `streamed` outputs are stored past the caches, as
// collectives/stream.h says.
void reduce_tree(std::span<std::byte* const> outs, std::span<const std::byte* const> sources,
                 std::size_t bytes, DType type, ReduceOp op, std::size_t streamed);

}  // namespace nqd::collectives

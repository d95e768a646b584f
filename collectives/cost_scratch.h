// What a communicator's scratch must hold for a call: the planner budgets what the algorithms take.
#pragma once

#include <cstddef>

#include "collectives/types.h"

namespace nqd::collectives {

// Bytes that `rank` takes for one call of the algorithm that nqd runs (kAuto resolved) on a full
// vector of `count` elements (as rank_traffic in collectives/cost.h means it). A communicator keeps
// the most that any call took.
//   all_reduce      ring: the longest chunk, or two pieces of it; tree: the vector for a parent (of
//                   one in pieces, two for each child); recursive_doubling, halving_doubling: the
//                   vector, where the rank takes part in the exchanges; pairwise: n times its
//                   chunk; direct: in place the vector, where it is small
//   reduce_scatter  ring: two longest chunks; halving_doubling: two vectors; pairwise: n times the
//                   rank's chunk
//   all_gather, all_to_all, send_recv, barrier  none
// direct is that of vectors in SharedBuffers. Throws Error (kUsage, NQD2102) for any other pair.
std::size_t scratch_bytes(Collective collective, Algorithm algorithm, std::size_t ranks,
                          std::size_t rank, std::size_t count, std::size_t element_bytes);

}  // namespace nqd::collectives

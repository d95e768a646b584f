// Which algorithm a collective of nqd's own engine runs: one answer for the engine, which calls it,
// and the planner, which counts it.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "collectives/numerics.h"
#include "collectives/types.h"

namespace nqd::planner {

// Of a full vector of `bytes` (collectives/cost.h says of which) among `ranks` ranks: direct where
// they reach each other's memory. Else a reduction is what collectives::canonical_algorithm says,
// in fast numerics a ring; all_gather is a ring, all_to_all pairwise. kAuto for a message.
collectives::Algorithm engine_algorithm(collectives::Numerics numerics,
                                        collectives::Collective collective, std::int64_t ranks,
                                        std::uint64_t bytes, DType type, bool reaches_memory);

}  // namespace nqd::planner

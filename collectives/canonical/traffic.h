// What a canonical reduction runs and moves (collectives/canonical/canonical.h has the formulas):
// the reductions and the planner share it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "collectives/canonical/layout.h"
#include "collectives/cost.h"
#include "collectives/types.h"

namespace nqd::collectives {

// What a call on this layout runs, `reaches_memory` being whether direct can run. Throws NQD2102.
Algorithm canonical_choice(Collective collective, const ContributionLayout& layout,
                           std::uint64_t bytes, DType type, bool reaches_memory,
                           Algorithm algorithm);

// What `rank` sends or moves in one call with that choice, over all of the collectives that it is
// made of. `collective` is kAllReduce or kReduceScatter.
RankTraffic canonical_traffic(Collective collective, const ContributionLayout& layout,
                              Algorithm choice, std::size_t rank, std::size_t count,
                              std::size_t element_bytes);

}  // namespace nqd::collectives

// Which algorithms a sweep with canonical numerics runs.
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/bench/bench.h"
#include "collectives/communicator.h"
#include "collectives/types.h"

namespace nqd::collectives {

// Those of `asked` that may run; kAuto stays, for at_size. Under `all_algorithms` the others are
// left out; else throws Error (kUsage, NQD2102) for the first that does not add in the canonical
// tree on these ranks, or cannot run.
std::vector<Algorithm> canonical_algorithms(const Communicator& world, const BenchOptions& options,
                                            const std::vector<Algorithm>& asked);

// What a sweep runs at `bytes`: kAuto resolved, others as they are.
Algorithm at_size(const Communicator& world, const BenchOptions& options, Algorithm algorithm,
                  std::uint64_t bytes);

}  // namespace nqd::collectives

#include "planner/layout/engine_algorithm.h"

#include "collectives/cost.h"

namespace nqd::planner {

using collectives::Algorithm;
using collectives::Collective;

Algorithm engine_algorithm(collectives::Numerics numerics, Collective collective,
                           std::int64_t ranks, std::uint64_t bytes, DType type,
                           bool reaches_memory) {
  if (collective == Collective::kSendRecv) return Algorithm::kAuto;
  if (reaches_memory) return Algorithm::kDirect;
  Algorithm algorithm = Algorithm::kAuto;
  if (numerics == collectives::Numerics::kCanonical) {
    algorithm = collectives::canonical_algorithm(collective, static_cast<std::size_t>(ranks), bytes,
                                                 type, false)
                    .value_or(Algorithm::kAuto);
  }
  return collectives::resolve(collective, algorithm);
}

}  // namespace nqd::planner

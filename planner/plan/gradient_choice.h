// Which all_reduce sums the gradients of a data-parallel step.
#pragma once

#include <optional>
#include <string_view>

#include "base/diagnostic.h"
#include "collectives/types.h"
#include "planner/spec.h"

namespace nqd::planner {

struct GradientChoice {
  collectives::Algorithm algorithm = collectives::Algorithm::kRing;
  bool tuned = false;  // as the measured crossovers of the cluster file say
  // NQD1309: a note that they were followed, or a warning that there are some and why they were
  // not.
  std::optional<Diagnostic> note;
};

// Where nqd's CPU engine runs the plan, what cluster.crossovers name for the largest gradient
// bucket of its first stage, all its buckets alike. By default, and for plans of other engines,
// direct where that engine has all its ranks on one node that shares memory, else the ring.
//
// Crossovers apply that were measured on as many ranks in the same place, of backend mpi before
// others or of `backend` alone where it is given, and inside a node in shared buffers, in which
// gradients lie. They are followed if the algorithm keeps config.numerics and
// every rank needs the same scratch (collectives/cost_scratch.h), which a plan has one figure for;
// else the default stays.
GradientChoice choose_gradient_algorithm(const Config& config, std::string_view backend = {});

}  // namespace nqd::planner

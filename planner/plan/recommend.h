// Which posture suits the model on this cluster, with the arithmetic that says so.
#pragma once

#include <string>

#include "planner/plan/plan.h"
#include "planner/spec.h"

namespace nqd::planner {

// "4Φ + 12Φ/8": persistent bytes of a rank under config's engine and precision, Φ one rank's part.
std::string state_formula(const Config& config);

// One sentence: the engine and mesh that the default posture (docs/memory.md) gives this job on its
// devices with its global batch, and why. A plan that fits but is not the default one is compared
// by predicted throughput. For a config that obeys the mesh rules; `memory` is its plan.
std::string recommend(const Config& config, const MemoryPlan& memory);

}  // namespace nqd::planner

// What to change when a plan does not fit, and which posture suits the model: every statement is
// computed by planning the alternative.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "planner/plan.h"
#include "planner/spec.h"

namespace nqd::planner {

// A changed config that obeys the mesh rules, and how it fits.
struct Alternative {
  std::string change;  // "parallel.engine: zero1"
  Config config;
  double spare_bytes = 0;  // limit − worst stage; negative: it does not fit
};

// Changes to a plan that does not fit, nearest first: more sharding on the same devices, full
// recomputation, a smaller micro-batch, both, tp inside the node, more devices under zero3. Only
// those that obey the mesh rules; also those that still do not fit.
std::vector<Alternative> alternatives(const Config& config);

// NQD1301 when the plan exceeds the limit: by how much, what dominates, and the first of the
// alternatives that fit.
std::vector<Diagnostic> check_fit(const Config& config, const MemoryPlan& memory);

// "4Φ + 12Φ/8": persistent bytes of a rank under config's engine and precision, Φ one rank's part.
std::string state_formula(const Config& config);

// One sentence or two: the engine and mesh that the posture of docs/memory.md gives this model on
// this cluster, and the arithmetic that says so. For a valid config whose memory is planned.
std::string recommend(const Config& config, const MemoryPlan& memory);

}  // namespace nqd::planner

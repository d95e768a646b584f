// Pure arithmetic: no MPI, GPU, network, YAML or JSON.
#pragma once

#include <vector>

#include "base/diagnostic.h"
#include "planner/plan/plan.h"
#include "planner/spec.h"

namespace nqd::planner {

// (p−1)/(m+p−1).
double bubble_fraction(std::int64_t stages, std::int64_t micro_batches);

// The mesh rules (NQD12xx) on resolved values. Places come from `locate` in planner/config/; here a
// diagnostic carries its dotted path only. All violations, in the order of the rules.
std::vector<Diagnostic> check_mesh(const Config& config);

// The whole answer: rules, memory by stage, communication by group, bubble, time, verdict,
// recommendation. Never throws for a config that loaded: violations are diagnostics.
Plan make_plan(const Config& config);

}  // namespace nqd::planner

// What one pipeline stage sends in a step, by group. planner/plan/communication.h states the
// policy.
#pragma once

#include <vector>

#include "planner/mesh/stages.h"
#include "planner/plan/communication.h"
#include "planner/traffic/calls.h"

namespace nqd::planner {

// Gradients and sharded weights: groups "dp", "dp_shard", "dp_replicate", and "expert_dp" where
// routed experts have other copies than the rest.
void add_data_parallel(const Config& config, const StageLayout& stage,
                       const MicroBatchTime& compute, TrafficRows& rows);

// Activations: groups "tp", "cp", "ep", "pp"; "embedding" for a tied head.
void add_model_parallel(const Config& config, const StageLayout& stage, TrafficRows& rows);

}  // namespace nqd::planner

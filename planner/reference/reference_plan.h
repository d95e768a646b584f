// The exact plan of what nqd's own engine runs on CPU ranks: memory as the sum of the buffers that
// the engine allocates, traffic call by call.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "planner/plan/communication.h"
#include "planner/plan/plan.h"
#include "planner/spec.h"

namespace nqd::planner {

// Why the engine does not run a config, as the end of "the engine cannot run …", and what to do.
struct EngineRefusal {
  std::string what;
  std::string hint;
};
// The first reason that applies; nothing for a config that it runs: dense causal decoders of the
// families gpt and llama and encoders of the family timeseries, on any mesh of dp, tp and pp, under
// any engine and schedule, with any recomputation, in float32, bfloat16 and float16, with any
// optimizer that is not offloaded, on ranks that are CPU cores. Precondition: check_mesh finds no
// error.
std::optional<EngineRefusal> engine_refusal(const Config& config);
bool runs_on_reference_engine(const Config& config);

// Beyond so many ranks, nobody's cores, a plan is not counted rank by rank.
inline constexpr std::int64_t kMostReferenceRanks = 1024;

// Bytes of one rank: planner/layout/state_buffers.h, planner/layout/activation_buffers.h, and the
// scratch of its communicators (collectives/cost_scratch.h). Precondition of all below:
// runs_on_reference_engine.
StageMemory reference_memory(const Config& config, std::int64_t rank);

struct ReferencePlan {
  MemoryPlan memory;                // of each stage, the rank that needs most
  CommunicationPlan communication;  // of each group and collective, the rank that sends most
};
// `compute` is what communication hides behind.
ReferencePlan plan_reference_engine(const Config& config, const MicroBatchTime& compute = {});

// What `rank` sends in one step, a row for each group and collective: what an audit multiplies by
// the number of steps.
std::vector<GroupTraffic> reference_traffic(const Config& config, std::int64_t rank);

}  // namespace nqd::planner

// What all ranks put together once the last step is made.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "collectives/communicator.h"
#include "engine/parallel/store/unit_store.h"
#include "engine/records.h"
#include "engine/train/rank_state.h"
#include "planner/plan/plan.h"

namespace nqd::engine {

// Collective over `control`: one sum of train.steps doubles, also when the run went on from a save
// or stopped early. Step times become the maximum over ranks; throughput and MFU follow from their
// median. MFU is planner::sample_flops of the global batch over the peak of the devices that
// result.ranks compute on; 0 where the cluster has no peak.
void settle_step_times(collectives::Communicator& control, const planner::Plan& plan,
                       TrainResult& result);

// How the steps were asked for, and the memory beside the plan, where the host does not compute.
void record_device(const RankState& state, TrainResult& result);

// Collective over `world`. The digest of the final weights; hands them to `on_weights` on rank 0
// (TrainOptions::on_weights).
void hand_out_weights(
    collectives::Communicator& world, const planner::Config& config, UnitStore& store,
    const std::function<void(const std::string& name, std::span<const float> values)>& on_weights,
    TrainResult& result);

}  // namespace nqd::engine

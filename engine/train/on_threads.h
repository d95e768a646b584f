// A whole training run inside this process.
#pragma once

#include <functional>

#include "engine/data/training_data.h"
#include "engine/records.h"
#include "engine/trainer.h"
#include "planner/plan/plan.h"

namespace nqd::engine {

// Trains the plan's config with its ranks as threads; the result of rank 0. `asked_to_stop`, where
// given, takes the place of the option: every rank asks it in each step, with its result of the
// steps before. Throws what train() does.
TrainResult train_on_threads(
    const planner::Plan& plan, const TrainingData& data, const TrainOptions& options = {},
    const std::function<bool(const TrainResult& so_far)>& asked_to_stop = {});

}  // namespace nqd::engine

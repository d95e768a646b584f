// One optimizer step over what a rank updates.
#pragma once

#include <cstdint>

#include "engine/parallel/store/unit_store.h"
#include "planner/spec.h"

namespace nqd::engine {

// Collective over the store's groups. Applies the optimizer with learning rate `lr` at 1-based
// `step` (bias correction), gradients multiplied by `gradient_scale` as they are read; weight decay
// only where a tensor's record says so; the momentum of SGD is beta1. An EMA of the weights, where
// the store has one, follows with decay 0.999. Then the store publishes the weights. `forget_one`:
// a mutant leaves the first run as it is.
void update_weights(UnitStore& store, const planner::OptimizerSpec& optimizer, std::int64_t step,
                    double lr, double gradient_scale, bool forget_one = false);

}  // namespace nqd::engine

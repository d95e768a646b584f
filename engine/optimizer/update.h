// One optimizer step over a whole model.
#pragma once

#include <cstdint>
#include <span>

#include "engine/models/gpt.h"
#include "planner/spec.h"

namespace nqd::engine {

// Clips by the global norm `grad_norm` (already measured) and applies AdamW to every parameter;
// weight decay only where the parameter's record says so. `m` and `v` are flat, in the order of the
// model's weights. `step` is 1-based, `lr` its learning rate.
void update_parameters(Gpt& model, std::span<float> m, std::span<float> v,
                       const planner::OptimizerSpec& optimizer, std::int64_t step, double lr,
                       double grad_norm);

}  // namespace nqd::engine

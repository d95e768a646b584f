// Learning rate over a run, and the global gradient norm.
#pragma once

#include <cstdint>
#include <span>

#include "planner/spec.h"

namespace nqd::engine {

// Linear warm-up to learning_rate at step = warmup_steps, then a cosine to min_learning_rate at
// step = steps. `step` is 1-based; steps past the end keep the minimum.
double learning_rate(const planner::OptimizerSpec& optimizer, std::int64_t steps,
                     std::int64_t step);

// √Σg², accumulated in double in one fixed order: the same bits on every rank that holds the same
// gradients.
double global_norm(std::span<const float> gradients);

// min(1, max_norm / norm); 1 when max_norm is 0 (clipping off).
double clip_factor(double norm, double max_norm);

}  // namespace nqd::engine

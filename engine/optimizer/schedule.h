// Learning rate over a run, and the global gradient norm.
#pragma once

#include <cstdint>
#include <span>

#include "planner/spec.h"

namespace nqd::engine {

// At 1-based `step` of `steps`. Linear warm-up to learning_rate at step = warmup_steps. From there
// it is min_learning_rate + f · (learning_rate − min_learning_rate), with f of
//   constant  1;
//   cosine    (1 + cos πx) / 2, x going from 0 at warmup_steps to 1 at the last step;
//   wsd       1 until step = steps − decay_steps; then 1 − x or 1 − √x (decay_shape), x going from
//             0 there to 1 at the last step (Hägele et al. 2024, arXiv:2405.18392, equation 1).
// Steps past the end keep the last step's.
double learning_rate(const planner::OptimizerSpec& optimizer, std::int64_t steps,
                     std::int64_t step);

// √Σg², accumulated in double in one fixed order: the same bits on every rank that holds the same
// gradients.
double global_norm(std::span<const float> gradients);

// min(1, max_norm / norm); 1 when max_norm is 0 (clipping off).
double clip_factor(double norm, double max_norm);

}  // namespace nqd::engine

// What all ranks add up once a step: the same on every mesh, because no sum is rounded before it is
// complete.
#pragma once

#include <cstdint>

#include "collectives/communicator.h"
#include "engine/numerics/exact_sum.h"
#include "engine/parallel/pipeline/stage_runner.h"

namespace nqd::engine {

struct StepTotals {
  double loss_sum = 0;      // of cross-entropies, natural logarithm
  std::int64_t tokens = 0;  // unmasked
  double squared_gradients = 0;
};

// Collective over `control`, all ranks of the mesh: a ring all_reduce of planner::kTotalsWords
// int64. `loss` of one tp rank of each end of the model, and `squares` of each rank, count.
StepTotals add_up(collectives::Communicator& control, const LossSum& loss, const ExactSum& squares);

}  // namespace nqd::engine

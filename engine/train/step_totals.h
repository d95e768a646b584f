// What all ranks add up once a step: the same on every mesh, because no sum is rounded before it is
// complete.
#pragma once

#include <cstdint>

#include "collectives/communicator.h"
#include "engine/numerics/exact_sum.h"

namespace nqd::engine {

// Of one rank: what of each sum is its own to count.
struct RankTotals {
  ExactSum loss;             // of cross-entropies, natural logarithm
  std::int64_t targets = 0;  // unmasked
  ExactSum squared_gradients;
  // Of steps that measure the gradient noise scale (unit_store.h: measure_leaves).
  ExactSum squared_leaves;
  ExactSum squared_but_table;
  bool asked_to_stop = false;
  bool saved = false;  // its file of the save that is under way is written, or given up
  bool save_failed = false;
};

struct StepTotals {
  double loss_sum = 0;
  std::int64_t targets = 0;
  double squared_gradients = 0;
  double squared_leaves = 0;
  double squared_but_table = 0;
  // Ranks.
  std::int64_t asked_to_stop = 0;
  std::int64_t saved = 0;
  std::int64_t saves_failed = 0;
};

// Collective over `control`, all ranks of the mesh: a ring all_reduce of planner::kTotalsWords
// int64.
StepTotals add_up(collectives::Communicator& control, const RankTotals& mine);

}  // namespace nqd::engine

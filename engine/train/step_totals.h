// What all ranks add up once a step: the same on every mesh, because no sum is rounded before it is
// complete.
#pragma once

#include <cstdint>

#include "collectives/communicator.h"
#include "engine/numerics/exact_sum.h"

namespace nqd::engine {

// Where one rank is with its saves (engine/train/checkpoints.h).
struct SaveStatus {
  bool is_due = false;
  bool saved = false;  // its file of the save that is under way is written, or given up
  bool save_failed = false;
  bool copied = false;  // likewise of the copy that is under way
  bool copy_failed = false;
};

// Of one rank: what of each sum is its own to count.
struct RankTotals {
  ExactSum loss;             // of cross-entropies, natural logarithm
  std::int64_t targets = 0;  // unmasked
  ExactSum squared_gradients;
  // Of steps that measure the gradient noise scale (unit_store.h: measure_leaves).
  ExactSum squared_leaves;
  ExactSum squared_but_table;
  bool asked_to_stop = false;
  SaveStatus save;
};

// Ranks.
struct SaveTotals {
  std::int64_t due = 0;
  std::int64_t saved = 0;
  std::int64_t saves_failed = 0;
  std::int64_t copied = 0;
  std::int64_t copies_failed = 0;
};

struct StepTotals {
  double loss_sum = 0;
  std::int64_t targets = 0;
  double squared_gradients = 0;
  double squared_leaves = 0;
  double squared_but_table = 0;
  std::int64_t asked_to_stop = 0;  // ranks
  SaveTotals save;
};

// Collective over `control`, all ranks of the mesh: a ring all_reduce of planner::kTotalsWords
// int64.
StepTotals add_up(collectives::Communicator& control, const RankTotals& mine);

}  // namespace nqd::engine

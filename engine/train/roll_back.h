// A run whose last steps did not count: whether it may go back to a generation, and what its record
// becomes when it does.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/communicator.h"
#include "engine/parallel/store/unit_store.h"
#include "engine/records.h"
#include "planner/spec.h"

namespace nqd::engine {

struct Setback {
  std::int64_t step = 0;  // the last one made
  std::int64_t skipped_in_a_row = 0;
  std::int64_t roll_backs = 0;  // before it
  std::string reason;           // a clause
};

// Collective over `world`. ", first in layers.3.mlp.fc.weight element 17 on rank 2": of the lowest
// rank that has a gradient which is not finite; empty where none has.
std::string first_non_finite(collectives::Communicator& world, UnitStore& store);

// Every rank decides from the same sums, so that all of them throw: Error (kFault, NQD4006), quiet
// on all but rank 0, where guard does not let the run go back (once more).
void check_may_go_back(const Setback& setback, const planner::GuardSpec& guard, int rank);
// The same error of a run that has nothing to go back to, or nothing that can be read: `skipped`
// says what is wrong with each generation.
[[noreturn]] void refuse_without_generation(const Setback& setback,
                                            const std::vector<std::string>& skipped,
                                            const planner::GuardSpec& guard, int rank);
// What a roll-back's reason says of generations that were skipped; empty without any.
std::string skipped_text(const std::vector<std::string>& skipped);

// Forgets the steps and evaluations behind step `roll_back.to_step`, which are made again, and adds
// the roll-back. skipped_steps loses those among them.
void note_roll_back(TrainResult& result, const RollBackRecord& roll_back);

// A sentence for logs.
std::string describe(const RollBackRecord& roll_back);

}  // namespace nqd::engine

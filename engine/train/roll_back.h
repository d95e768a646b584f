// What a run's record becomes when the run goes back to a generation.
#pragma once

#include <string>

#include "engine/records.h"

namespace nqd::engine {

// Forgets the steps and evaluations behind step `roll_back.to_step`, which are made again, and adds
// the roll-back. skipped_steps loses those among them.
void note_roll_back(TrainResult& result, const RollBackRecord& roll_back);

// A sentence for logs.
std::string describe(const RollBackRecord& roll_back);

}  // namespace nqd::engine

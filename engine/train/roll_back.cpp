#include "engine/train/roll_back.h"

#include <algorithm>
#include <string>

namespace nqd::engine {

void note_roll_back(TrainResult& result, const RollBackRecord& roll_back) {
  const auto is_undone = [&](const auto& record) { return record.step > roll_back.to_step; };
  result.skipped_steps -=
      std::count_if(result.steps.begin(), result.steps.end(),
                    [&](const StepRecord& step) { return is_undone(step) && step.skipped; });
  std::erase_if(result.steps, is_undone);
  std::erase_if(result.evals, is_undone);
  result.roll_backs.push_back(roll_back);
}

std::string describe(const RollBackRecord& roll_back) {
  return "step " + std::to_string(roll_back.at_step) + ": " + roll_back.reason +
         "; going back to step " + std::to_string(roll_back.to_step) + " (" + roll_back.generation +
         ") and on without the " + std::to_string(roll_back.skipped_batches) + " batches behind it";
}

}  // namespace nqd::engine

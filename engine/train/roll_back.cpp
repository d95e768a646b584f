#include "engine/train/roll_back.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <vector>

#include "base/error.h"

namespace nqd::engine {
namespace {

[[noreturn]] void refuse(const Setback& setback, const planner::GuardSpec& guard, int rank,
                         const std::string& hint) {
  std::string what = "step " + std::to_string(setback.step) + ": " + setback.reason;
  if (guard.roll_back) what += ", after " + std::to_string(setback.roll_backs) + " roll-backs";
  what += "; the weights of step " + std::to_string(setback.step - setback.skipped_in_a_row) +
          " were the last good ones";
  Error error(ExitCode::kFault, "NQD4006", what, hint);
  error.set_quiet(rank != 0);
  throw error;
}

}  // namespace

std::string first_non_finite(collectives::Communicator& world, UnitStore& store) {
  std::array<char, 120> mine{};
  if (const auto found = store.first_non_finite()) {
    std::memcpy(mine.data(), found->data(), std::min(found->size(), mine.size() - 1));
  }
  std::vector<std::array<char, 120>> all(static_cast<std::size_t>(world.size()));
  world.all_gather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)),
                   DType::kUInt8);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].front() == '\0') continue;
    return ", first in " + std::string(all[rank].data()) + " on rank " + std::to_string(rank);
  }
  return "";
}

void check_may_go_back(const Setback& setback, const planner::GuardSpec& guard, int rank) {
  if (!guard.roll_back) {
    refuse(setback, guard, rank,
           "lower train.optimizer.learning_rate, lengthen warmup_steps, set grad_clip, or set "
           "guard.roll_back");
  }
  if (setback.roll_backs >= guard.max_roll_backs) {
    refuse(setback, guard, rank,
           "look at the data, lower train.optimizer.learning_rate, or raise "
           "guard.max_roll_backs");
  }
}

void refuse_without_generation(const Setback& setback, const std::vector<std::string>& skipped,
                               const planner::GuardSpec& guard, int rank) {
  if (skipped.empty()) {
    refuse(setback, guard, rank,
           "set checkpoint.every, so that there is a generation to go back to, or lower "
           "train.optimizer.learning_rate");
  }
  Setback damaged = setback;
  damaged.reason += skipped_text(skipped) + "; no generation is left to go back to";
  refuse(damaged, guard, rank,
         "look at the disk (`nqd checkpoint verify` reads a generation), and keep more of them: "
         "checkpoint.keep_last, or a copy in checkpoint.durable_path");
}

std::string skipped_text(const std::vector<std::string>& skipped) {
  std::string text;
  for (const std::string& why : skipped) text += "; cannot go back to " + why;
  return text;
}

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

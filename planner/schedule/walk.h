// Visits the actions of a schedule in an order that respects both the lists and the dependencies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/schedule/schedule.h"

namespace nqd::planner {

// The action that has to end before `action` starts, besides those earlier on its own stage.
// Returns false when there is none (a forward of chunk 0).
constexpr bool dependency(const Action& action, std::int64_t chunks, Action& before) noexcept {
  before = action;
  switch (action.kind) {
    case ActionKind::kForward:
      before.chunk = action.chunk - 1;
      return action.chunk > 0;
    case ActionKind::kBackwardWeight:
      before.kind = ActionKind::kBackwardInput;
      return true;
    case ActionKind::kBackward:
    case ActionKind::kBackwardInput:
      if (action.chunk + 1 == chunks) {
        before.kind = ActionKind::kForward;
      } else {
        before.chunk = action.chunk + 1;
      }
      return true;
  }
  return false;
}

// Index of an action among 3·m·p·v: forward, backward (whole or input), weight.
constexpr std::size_t action_slot(const Action& action, const ScheduleSpec& spec) noexcept {
  const std::int64_t phase = action.kind == ActionKind::kForward          ? 0
                             : action.kind == ActionKind::kBackwardWeight ? 2
                                                                          : 1;
  return static_cast<std::size_t>(
      (phase * spec.micro_batches + action.micro_batch) * chunk_count(spec) + action.chunk);
}

// Calls visit(stage, action, dependency or nullptr) once an action, O(1) each; returns whether all
// were visited: false means that the stages wait for each other for ever. Actions lie inside the
// ranges of the spec.
template <typename Visit>
bool walk(const PipelineSchedule& schedule, Visit&& visit) {
  const ScheduleSpec& spec = schedule.spec;
  const std::int64_t chunks = chunk_count(spec);
  const auto slots = static_cast<std::size_t>(3 * spec.micro_batches * chunks);
  std::vector<bool> done(slots, false);
  // A result has at most one reader on another stage: the stage that waits for a slot, or −1.
  std::vector<std::int32_t> waiting(slots, -1);
  std::vector<std::size_t> position(schedule.stages.size(), 0);
  std::vector<std::int32_t> ready;
  for (std::size_t stage = schedule.stages.size(); stage-- > 0;) {
    ready.push_back(static_cast<std::int32_t>(stage));
  }
  std::size_t finished = 0;
  while (!ready.empty()) {
    const std::int32_t stage = ready.back();
    ready.pop_back();
    const std::vector<Action>& actions = schedule.stages[static_cast<std::size_t>(stage)];
    std::size_t& next = position[static_cast<std::size_t>(stage)];
    for (; next < actions.size(); ++next) {
      const Action& action = actions[next];
      Action before;
      const bool waits = dependency(action, chunks, before);
      if (waits && !done[action_slot(before, spec)]) {
        waiting[action_slot(before, spec)] = stage;
        break;
      }
      visit(static_cast<std::size_t>(stage), action, waits ? &before : nullptr);
      const std::size_t slot = action_slot(action, spec);
      done[slot] = true;
      if (waiting[slot] >= 0) ready.push_back(waiting[slot]);
    }
    if (next == actions.size()) ++finished;
  }
  return finished == schedule.stages.size();
}

}  // namespace nqd::planner

// Runs a schedule event by event: each stage starts its next action as soon as it is free and what
// the action waits for has arrived.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/schedule/closed_form.h"
#include "planner/schedule/schedule.h"

namespace nqd::planner {

struct PipelineTimes {
  std::vector<PhaseTimes> chunks;  // by chunk, p·v of them: seconds of one micro-batch
  double message_s = 0;            // from the end of an action to its use on another stage
};

// The same times for each chunk, which is 1/v of `stage`.
PipelineTimes equal_times(const ScheduleSpec& spec, const PhaseTimes& stage, double message_s = 0);

struct TimedAction {
  Action action;
  double start_s = 0;
  double end_s = 0;
};

struct StageTimeline {
  std::vector<TimedAction> actions;  // in order of time
  double busy_s = 0;
  // The moment with the most activations, of several the one with the most whole ones.
  InFlight peak;
  // From the start of its first action to the end of its last.
  double span_s() const { return actions.empty() ? 0 : actions.back().end_s - first_s(); }
  double first_s() const { return actions.empty() ? 0 : actions.front().start_s; }
};

struct PipelineTimeline {
  std::vector<StageTimeline> stages;
  double makespan_s = 0;  // from 0, when stage 0 starts, to the end of the last action
  // The longest span of a stage: steps follow each other at this distance when no stage waits for
  // the others between them. Smaller than the makespan for zb-h2 and zb-v alone, equal stages.
  double step_s = 0;
  // 1 − Σ busy ÷ (p·step_s): the cost of arXiv:2401.10241 section 5.3, work left out.
  double bubble_fraction = 0;
  double stage_bubble_fraction(std::size_t stage) const;  // 1 − busy ÷ step_s
  // 1 − Σ busy ÷ (p·seconds): the bubble of another step time, as that of the closed form.
  double idle_share(double seconds) const;
};

// The step in closed form (step_seconds, and exposed_messages times message_s), to be compared with
// step_s. Exact where those are; elsewhere an estimate.
double closed_form_step_seconds(const ScheduleSpec& spec, const PipelineTimes& times);

// O(actions), deterministic. Preconditions: schedule_fault finds none; times for every chunk, none
// negative.
PipelineTimeline simulate_pipeline(const PipelineSchedule& schedule, const PipelineTimes& times);

}  // namespace nqd::planner

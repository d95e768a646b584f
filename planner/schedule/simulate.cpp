#include "planner/schedule/simulate.h"

#include <algorithm>

#include "planner/schedule/walk.h"

namespace nqd::planner {
namespace {

double seconds(ActionKind kind, const PhaseTimes& times) {
  switch (kind) {
    case ActionKind::kForward:
      return times.forward;
    case ActionKind::kBackward:
      return times.backward_input + times.backward_weight;
    case ActionKind::kBackwardInput:
      return times.backward_input;
    case ActionKind::kBackwardWeight:
      return times.backward_weight;
  }
  return 0;
}

// What the stage holds while `kind` runs, and from it the peak: a forward's activations exist from
// its start, a backward's until its end.
void hold(ActionKind kind, InFlight& held, InFlight& peak) {
  if (kind == ActionKind::kForward) {
    ++held.whole;
    if (held.total() > peak.total() || (held.total() == peak.total() && held.whole > peak.whole)) {
      peak = held;
    }
  } else if (kind == ActionKind::kBackward) {
    --held.whole;
  } else if (kind == ActionKind::kBackwardInput) {
    --held.whole;
    ++held.weight_only;
  } else {
    --held.weight_only;
  }
}

void summarize(PipelineTimeline& timeline) {
  for (const StageTimeline& stage : timeline.stages) {
    timeline.step_s = std::max(timeline.step_s, stage.span_s());
    if (!stage.actions.empty()) {
      timeline.makespan_s = std::max(timeline.makespan_s, stage.actions.back().end_s);
    }
  }
  timeline.bubble_fraction = timeline.idle_share(timeline.step_s);
}

}  // namespace

PipelineTimes equal_times(const ScheduleSpec& spec, const PhaseTimes& stage, double message_s) {
  const auto v = static_cast<double>(spec.virtual_stages);
  const PhaseTimes chunk{stage.forward / v, stage.backward_input / v, stage.backward_weight / v};
  return {std::vector<PhaseTimes>(static_cast<std::size_t>(chunk_count(spec)), chunk), message_s};
}

double closed_form_step_seconds(const ScheduleSpec& spec, const PipelineTimes& times) {
  std::vector<PhaseTimes> stages(static_cast<std::size_t>(spec.stages));
  for (std::size_t chunk = 0; chunk < times.chunks.size(); ++chunk) {
    const std::int64_t index = stage_of_chunk(spec, static_cast<std::int64_t>(chunk));
    PhaseTimes& stage = stages[static_cast<std::size_t>(index)];
    stage.forward += times.chunks[chunk].forward;
    stage.backward_input += times.chunks[chunk].backward_input;
    stage.backward_weight += times.chunks[chunk].backward_weight;
  }
  return step_seconds(spec, stages) + static_cast<double>(exposed_messages(spec)) * times.message_s;
}

double PipelineTimeline::stage_bubble_fraction(std::size_t stage) const {
  return step_s > 0 ? (step_s - stages[stage].busy_s) / step_s : 0;
}

double PipelineTimeline::idle_share(double seconds) const {
  double busy = 0;
  for (const StageTimeline& stage : stages) busy += stage.busy_s;
  const double offered = static_cast<double>(stages.size()) * seconds;
  return offered > 0 ? (offered - busy) / offered : 0;
}

PipelineTimeline simulate_pipeline(const PipelineSchedule& schedule, const PipelineTimes& times) {
  const ScheduleSpec& spec = schedule.spec;
  PipelineTimeline timeline;
  timeline.stages.resize(schedule.stages.size());
  std::vector<InFlight> held(schedule.stages.size());
  for (std::size_t stage = 0; stage < schedule.stages.size(); ++stage) {
    timeline.stages[stage].actions.reserve(schedule.stages[stage].size());
  }
  std::vector<double> ended(static_cast<std::size_t>(3 * spec.micro_batches * chunk_count(spec)),
                            0);
  walk(schedule, [&](std::size_t stage, const Action& action, const Action* before) {
    StageTimeline& line = timeline.stages[stage];
    double start = line.actions.empty() ? 0 : line.actions.back().end_s;
    if (before != nullptr) {
      const bool remote = stage_of_chunk(spec, before->chunk) != static_cast<std::int64_t>(stage);
      start = std::max(start, ended[action_slot(*before, spec)] + (remote ? times.message_s : 0));
    }
    const double duration =
        seconds(action.kind, times.chunks[static_cast<std::size_t>(action.chunk)]);
    line.actions.push_back({action, start, start + duration});
    line.busy_s += duration;
    ended[action_slot(action, spec)] = start + duration;
    hold(action.kind, held[stage], line.peak);
  });
  summarize(timeline);
  return timeline;
}

}  // namespace nqd::planner

#include "planner/schedule/timeline_text.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "base/units.h"
#include "planner/text.h"

namespace nqd::planner {
namespace {

constexpr int kSmallestWidth = 40;

std::string label(const ScheduleSpec& spec, const Action& action) {
  std::string text = std::to_string(action.micro_batch);
  if (spec.virtual_stages > 1) {
    const std::int64_t local = action.chunk / spec.stages;
    text += local < 26 ? std::string(1, static_cast<char>('a' + local)) : std::to_string(local);
  }
  return text;
}

// One action drawn over `columns`.
std::string cell(const ScheduleSpec& spec, const Action& action, std::size_t columns) {
  const std::string text = label(spec, action);
  const char mark = action.kind == ActionKind::kForward          ? '>'
                    : action.kind == ActionKind::kBackwardWeight ? 'w'
                                                                 : '<';
  const std::string number = text.size() < columns ? text : "";
  return number + std::string(columns - number.size(), mark);
}

struct Scale {
  double columns_per_s = 0;
  double full_columns = 0;  // that every action's number needs
  std::size_t columns = 0;  // of the whole timeline
  std::size_t of(double seconds) const {
    return static_cast<std::size_t>(std::floor(seconds * columns_per_s + 0.5));
  }
};

// Whole columns for the shortest action where they fit, so that equal times look equal.
Scale scale_of(const ScheduleSpec& spec, const PipelineTimeline& timeline, std::size_t available) {
  double shortest = std::numeric_limits<double>::infinity();
  std::size_t longest_label = 0;
  for (const StageTimeline& stage : timeline.stages) {
    for (const TimedAction& timed : stage.actions) {
      longest_label = std::max(longest_label, label(spec, timed.action).size());
      const double duration = timed.end_s - timed.start_s;
      if (duration > 0) shortest = std::min(shortest, duration);
    }
  }
  Scale scale;
  if (!(timeline.makespan_s > 0) || std::isinf(shortest)) return scale;
  const double needed = static_cast<double>(longest_label + 1);
  scale.full_columns = std::ceil(timeline.makespan_s / shortest * needed);
  const double fit = static_cast<double>(available) / timeline.makespan_s;
  const double whole = std::min(std::floor(fit * shortest * (1 + 1e-9)), needed + 1);
  scale.columns_per_s = whole >= 1 ? whole / shortest : fit;
  scale.columns = std::min(scale.of(timeline.makespan_s), available);
  return scale;
}

std::string row(const ScheduleSpec& spec, const StageTimeline& stage, const Scale& scale) {
  std::string text(scale.columns, '.');
  for (const TimedAction& timed : stage.actions) {
    const std::size_t from = std::min(scale.of(timed.start_s), scale.columns);
    const std::size_t to = std::min(scale.of(timed.end_s), scale.columns);
    if (to > from) text.replace(from, to - from, cell(spec, timed.action, to - from));
  }
  return text;
}

std::string padded(const std::string& text, std::size_t width) {
  return std::string(width > text.size() ? width - text.size() : 0, ' ') + text;
}

}  // namespace

std::string render_timeline(const ScheduleSpec& spec, const PipelineTimeline& timeline, int width) {
  const std::size_t digits = std::to_string(spec.stages - 1).size();
  const std::size_t frame = std::string("stage ").size() + digits + std::string(" ||").size();
  const auto asked = static_cast<std::size_t>(std::max(width, kSmallestWidth));
  const Scale scale = scale_of(spec, timeline, asked - frame);
  const std::string end = format_seconds(timeline.makespan_s);
  std::string text = std::string(frame - 1, ' ') + "0" +
                     padded(end, std::max(scale.columns, end.size() + 2) - 1) + "\n";
  for (std::size_t stage = 0; stage < timeline.stages.size(); ++stage) {
    text += "stage " + padded(std::to_string(stage), digits) + " |" +
            row(spec, timeline.stages[stage], scale) + "|\n";
  }
  text += splits_backward(spec.schedule)
              ? "3> forward of micro-batch 3, 3< input gradient, 3w weight gradient, . waits"
              : "3> forward of micro-batch 3, 3< its backward, . waits";
  text += '\n';
  if (spec.virtual_stages > 1)
    text += "a letter after the number: the chunk of the stage, a first\n";
  if (scale.full_columns > static_cast<double>(asked - frame)) {
    char advice[120];
    std::snprintf(advice, sizeof(advice), "(a width of %.0f shows every number)\n",
                  scale.full_columns + static_cast<double>(frame));
    text += advice;
  }
  return text;
}

std::string render_pipeline_summary(const ScheduleSpec& spec, const PipelineTimeline& timeline,
                                    double closed_form_step_s) {
  std::string text = "step    " + format_seconds(timeline.step_s) + " simulated, " +
                     format_seconds(closed_form_step_s) + " in closed form\n";
  text += "bubble  " + percent(timeline.bubble_fraction) + " simulated, " +
          percent(timeline.idle_share(closed_form_step_s)) + " in closed form\n";
  if (timeline.makespan_s > timeline.step_s) {
    text += "        " + format_seconds(timeline.makespan_s) +
            " a step where every stage waits for the others between steps\n";
  }
  const bool split = splits_backward(spec.schedule);
  text += "\npeak of activations in flight, in ";
  text += spec.virtual_stages > 1
              ? "chunks (1/" + std::to_string(spec.virtual_stages) + " stage, one micro-batch)\n"
              : "micro-batches\n";
  text += "stage        busy    bubble    peak";
  text += split ? "  for weights only\n" : "\n";
  for (std::size_t stage = 0; stage < timeline.stages.size(); ++stage) {
    const StageTimeline& line = timeline.stages[stage];
    text += padded(std::to_string(stage), 5) + padded(format_seconds(line.busy_s), 12) +
            padded(percent(timeline.stage_bubble_fraction(stage)), 10) +
            padded(std::to_string(line.peak.total()), 8);
    if (split) text += padded(std::to_string(line.peak.weight_only), 18);
    text += '\n';
  }
  return text;
}

}  // namespace nqd::planner

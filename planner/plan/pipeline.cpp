#include "planner/plan/pipeline.h"

#include <algorithm>
#include <cmath>

#include "planner/planner.h"
#include "planner/schedule/closed_form.h"
#include "planner/text.h"

namespace nqd::planner {
namespace {

constexpr double kBubbleLimit = 0.2;

}  // namespace

double interleaved_bubble_fraction(std::int64_t stages, std::int64_t micro_batches,
                                   std::int64_t virtual_stages) {
  if (stages <= 1) return 0;
  const auto idle = static_cast<double>(stages - 1);
  return idle / (static_cast<double>(virtual_stages * micro_batches) + idle);
}

double bubble_fraction(std::int64_t stages, std::int64_t micro_batches) {
  return interleaved_bubble_fraction(stages, micro_batches, 1);
}

std::int64_t micro_batches_for_bubble(std::int64_t stages, double fraction,
                                      std::int64_t virtual_stages) {
  if (stages <= 1) return 1;
  const double needed = static_cast<double>(stages - 1) * (1 - fraction) /
                        (fraction * static_cast<double>(virtual_stages));
  // 9(p−1) must not become 9(p−1)+1 because 0.9/0.1 is not exactly 9.
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(needed * (1 - 1e-12))));
}

std::int64_t micro_batches_for_bubble(ScheduleSpec spec, double fraction) {
  const std::int64_t step = spec.schedule == Schedule::kInterleaved ? spec.stages : 1;
  const auto enough = [&](std::int64_t steps) {
    spec.micro_batches = steps * step;
    // 9(p−1) must not become 9(p−1)+1 because a tenth is no binary fraction.
    return bubble_fraction(spec) <= fraction * (1 + 1e-12);
  };
  std::int64_t most = 1;
  while (!enough(most)) most *= 2;
  std::int64_t least = 1;
  while (least < most) {
    const std::int64_t middle = (least + most) / 2;
    enough(middle) ? most = middle : least = middle + 1;
  }
  return least * step;
}

std::int64_t virtual_stages(const ParallelSpec& parallel) {
  if (parallel.schedule == Schedule::kZbV) return 2;
  return parallel.schedule == Schedule::kInterleaved ? std::max<std::int64_t>(parallel.vpp, 1) : 1;
}

std::int64_t micro_batches_of(const Config& config) {
  const std::int64_t replicas = config.train.micro_batch_size * config.parallel.dp;
  return replicas > 0 ? std::max<std::int64_t>(config.train.global_batch_size / replicas, 1) : 1;
}

ScheduleSpec schedule_spec(const Config& config) {
  return {config.parallel.schedule, config.parallel.pp, micro_batches_of(config),
          virtual_stages(config.parallel)};
}

double in_flight_micro_batches(const Config& config, std::int64_t stage) {
  if (config.parallel.pp <= 1) return 1;
  const ScheduleSpec spec = schedule_spec(config);
  return static_cast<double>(in_flight(spec, stage).total()) /
         static_cast<double>(spec.virtual_stages);
}

PipelinePlan plan_pipeline(const Config& config) {
  return {micro_batches_of(config), bubble_fraction(schedule_spec(config))};
}

namespace {

// What shrinks the bubble of equal stages: more micro-batches.
std::string more_micro_batches(const Config& config) {
  ScheduleSpec spec = schedule_spec(config);
  const std::int64_t tenth = micro_batches_for_bubble(spec, 0.1);
  spec.micro_batches = 4 * config.parallel.pp;
  const std::int64_t sequences = config.train.micro_batch_size * config.parallel.dp;
  return "m >= 4p = " + std::to_string(spec.micro_batches) + " micro-batches (global_batch_size " +
         std::to_string(spec.micro_batches * sequences) + ") give " +
         percent(bubble_fraction(spec)) + "; at most 10 % needs m >= " + std::to_string(tenth);
}

}  // namespace

std::vector<Diagnostic> check_pipeline(const Config& config, const PipelinePlan& plan,
                                       const TimePlan& time) {
  const double share = time.step_s > 0 ? time.bubble_share() : plan.bubble_fraction;
  if (config.parallel.pp <= 1 || share <= kBubbleLimit) return {};
  // Equal stages would wait little: these are not.
  const bool unequal = plan.bubble_fraction <= kBubbleLimit;
  Diagnostic warning;
  warning.code = "NQD1302";
  warning.severity = Severity::kWarning;
  warning.path = unequal ? "parallel.pipeline_split" : "train.global_batch_size";
  warning.message = percent(share) + " of the step is pipeline bubble with " +
                    std::to_string(config.parallel.pp) + " stages and " +
                    std::to_string(plan.micro_batches) + " micro-batches";
  if (time.step_s > 0) {
    warning.message += " (" + percent(plan.bubble_fraction) + " if all stages were equal)";
  }
  warning.expected = "at most " + percent(kBubbleLimit);
  warning.got = percent(share);
  warning.hint = unequal ? "the others wait for the slowest stage: give it fewer layers in "
                           "parallel.pipeline_split, or choose another pp"
                         : more_micro_batches(config);
  return {warning};
}

}  // namespace nqd::planner

#include "planner/schedule/closed_form.h"

#include <algorithm>

namespace nqd::planner {
namespace {

// What makes the bubble: times of the other stages that a step waits for, as a share of their sum,
// and times of the waiting stage that fill it, as a number of micro-batches.
struct BubbleFactors {
  double share = 1;  // of F and B of the others, and of W where nothing puts it off
  bool waits_for_weights = true;
  double forwards = 0;
  double weights = 0;
};

BubbleFactors bubble_factors(const ScheduleSpec& spec) noexcept {
  const std::int64_t p = spec.stages;
  const std::int64_t m = spec.micro_batches;
  const auto count = [](std::int64_t number) { return static_cast<double>(number); };
  switch (spec.schedule) {
    case Schedule::kGPipe:
    case Schedule::k1F1B:
      return {1, true, 0, 0};
    case Schedule::kInterleaved:
      return {1 / count(spec.virtual_stages), true, 0, 0};
    case Schedule::kZbH1:
      return {1, false, 0, count(std::min(m - 1, p - 1))};
    case Schedule::kZbH2:
      return {1, false, 0, count(std::min(m - 1, 2 * p - 2))};
    case Schedule::kZbV:
      return {1, false, count(std::min(m - 1, p - 1)),
              count(std::clamp<std::int64_t>(m - p, 0, p - 1))};
  }
  return {};
}

double bubble_of(const ScheduleSpec& spec, const PhaseTimes& waiting,
                 const PhaseTimes& others) noexcept {
  if (spec.stages <= 1) return 0;
  const BubbleFactors factors = bubble_factors(spec);
  const double waits = others.forward + others.backward_input +
                       (factors.waits_for_weights ? others.backward_weight : 0);
  return std::max(0.0, factors.share * waits - factors.forwards * waiting.forward -
                           factors.weights * waiting.backward_weight);
}

double ratio(std::int64_t bubble, std::int64_t work) noexcept {
  return bubble <= 0 ? 0 : static_cast<double>(bubble) / static_cast<double>(work + bubble);
}

PhaseTimes sum_of(std::span<const PhaseTimes> stages) noexcept {
  PhaseTimes sum;
  for (const PhaseTimes& stage : stages) {
    sum.forward += stage.forward;
    sum.backward_input += stage.backward_input;
    sum.backward_weight += stage.backward_weight;
  }
  return sum;
}

double gpipe_step(double micro_batches, std::span<const PhaseTimes> stages) noexcept {
  double forward = 0;
  double backward = 0;
  for (const PhaseTimes& stage : stages) {
    forward = std::max(forward, stage.forward);
    backward = std::max(backward, stage.backward_input + stage.backward_weight);
  }
  return (micro_batches - 1) * (forward + backward) + sum_of(stages).total();
}

// How one stage of 1f1b, zb-h1 or zb-h2 runs; 1f1b puts no weight gradients off, and has none
// apart.
struct StageOrder {
  std::int64_t warm_up;  // forwards before the first backward
  std::int64_t put_off;  // weight gradients that wait for the end
  PhaseTimes times;
};

StageOrder stage_order(const ScheduleSpec& spec, std::span<const PhaseTimes> stages,
                       std::int64_t stage) noexcept {
  const PhaseTimes& times = stages[static_cast<std::size_t>(stage)];
  if (!splits_backward(spec.schedule)) {
    return {std::min(spec.micro_batches, spec.stages - stage),
            0,
            {times.forward, times.backward_input + times.backward_weight, 0}};
  }
  const std::int64_t warm_up = zero_bubble_warm_up(spec, stage);
  return {warm_up, zero_bubble_warm_up(spec, 0) - warm_up, times};
}

// Seconds since a stage's first forward began, if all that it ever waits for is the last stage's
// answer to its first and to its last micro-batch.
struct StagePath {
  double last_forward = 0;   // end of its last forward
  double last_backward = 0;  // end of its last input gradient
};

StagePath stage_path(std::int64_t micro_batches, const StageOrder& order,
                     double round_trip) noexcept {
  const auto [forward, backward, weight] = order.times;
  const auto count = [](std::int64_t number) { return static_cast<double>(number); };
  const auto weights_before = [&, seconds = weight](std::int64_t backwards) {
    return count(std::max<std::int64_t>(0, backwards - order.put_off)) * seconds;
  };
  const std::int64_t m = micro_batches;
  const std::int64_t steady = m - order.warm_up;  // backwards before the last forward
  const double first_wait = std::max(0.0, round_trip - count(order.warm_up - 1) * forward);
  StagePath path;
  path.last_forward = count(m) * forward;
  if (steady > 0) {
    path.last_forward += first_wait + count(steady) * backward + weights_before(steady);
  }
  const double drain =
      count(m - steady - 1) * backward + weights_before(m - 1) - weights_before(steady);
  path.last_backward = path.last_forward + std::max(round_trip, drain) + backward;
  if (steady == 0) {
    path.last_backward =
        std::max(path.last_backward, path.last_forward + first_wait + drain + backward);
  }
  return path;
}

// The longest time that a stage needs from its first to its last action, over all paths: down to
// some stage s, through s as stage_path has it, and from its last forward or backward to the end.
double longest_path(const ScheduleSpec& spec, std::span<const PhaseTimes> stages) noexcept {
  PhaseTimes sum;
  for (std::int64_t i = 0; i < spec.stages; ++i) {
    const PhaseTimes times = stage_order(spec, stages, i).times;
    sum.forward += times.forward;
    sum.backward_input += times.backward_input;
  }
  double longest = 0;
  const auto finish = [&](double last_backward, const StageOrder& order, double start) {
    const std::int64_t weights = std::min(spec.micro_batches, order.put_off + 1);
    longest = std::max(longest, last_backward - start +
                                    static_cast<double>(weights) * order.times.backward_weight);
  };
  const auto path_of = [&](const StageOrder& order, double forwards, double backwards) {
    return stage_path(spec.micro_batches, order,
                      sum.forward - forwards - order.times.forward + sum.backward_input -
                          backwards - order.times.backward_input);
  };
  // Down: from the last forward of stage s to the last stage and back up to a stage below s.
  double at_last_stage = 0;
  double forwards = 0;   // of the stages before
  double backwards = 0;  // likewise
  for (std::int64_t i = 0; i < spec.stages; ++i) {
    const StageOrder order = stage_order(spec, stages, i);
    if (i > 0) finish(at_last_stage + sum.backward_input - backwards, order, forwards);
    at_last_stage = std::max(at_last_stage, path_of(order, forwards, backwards).last_forward +
                                                sum.forward - order.times.forward);
    forwards += order.times.forward;
    backwards += order.times.backward_input;
  }
  // Up: from the last backward of stage s to s itself and the stages before.
  double last_backward = 0;
  for (std::int64_t i = spec.stages; i-- > 0;) {
    const StageOrder order = stage_order(spec, stages, i);
    forwards -= order.times.forward;
    backwards -= order.times.backward_input;
    last_backward = std::max(last_backward + order.times.backward_input,
                             forwards + path_of(order, forwards, backwards).last_backward);
    finish(last_backward, order, forwards);
  }
  return longest;
}

// Messages on the longest path: those of the fill and the drain, and round trips between.
struct Messages {
  std::int64_t ends = 0;
  std::int64_t pairs = 0;
};

Messages messages_of(const ScheduleSpec& spec) noexcept {
  const std::int64_t p = spec.stages;
  if (p <= 1) return {};
  const auto tight = [p](std::int64_t m) -> Messages {
    return {2 * (p - 1), (m - 1) - (m - 1 + p - 1) / p};
  };
  switch (spec.schedule) {
    case Schedule::kGPipe:
    case Schedule::kZbH2:
      return {2 * (p - 1), 0};
    case Schedule::k1F1B:
      return tight(spec.micro_batches);
    case Schedule::kInterleaved:
      return {2 * (p * spec.virtual_stages - 1), 0};
    case Schedule::kZbH1:
      return tight(std::min(spec.micro_batches, p + 1));
    case Schedule::kZbV:
      return {4 * (p - 1), std::clamp<std::int64_t>(spec.micro_batches - p - 1, 0, p - 2)};
  }
  return {};
}

}  // namespace

double bubble_seconds(const ScheduleSpec& spec, const PhaseTimes& stage) noexcept {
  const auto others = static_cast<double>(spec.stages - 1);
  return bubble_of(
      spec, stage,
      {others * stage.forward, others * stage.backward_input, others * stage.backward_weight});
}

// In whole numbers, so that it is the nearest double of the exact ratio.
double bubble_fraction(const ScheduleSpec& spec) noexcept {
  const std::int64_t p = spec.stages;
  const std::int64_t m = spec.micro_batches;
  if (p <= 1) return 0;
  switch (spec.schedule) {
    case Schedule::kGPipe:
    case Schedule::k1F1B:
      return ratio(p - 1, m);
    case Schedule::kInterleaved:
      return ratio(p - 1, spec.virtual_stages * m);
    case Schedule::kZbH1:
      return ratio(std::max(p - 1, 2 * p - 1 - m), 3 * m);
    case Schedule::kZbH2:
    case Schedule::kZbV:
      return ratio(2 * p - 1 - m, 3 * m);
  }
  return 0;
}

double step_seconds(const ScheduleSpec& spec, const PhaseTimes& slowest,
                    const PhaseTimes& others) noexcept {
  return static_cast<double>(spec.micro_batches) * slowest.total() +
         bubble_of(spec, slowest, others);
}

double folded_wait_seconds(const ScheduleSpec& spec, const PhaseTimes& slowest,
                           const PhaseTimes& head, const PhaseTimes& others) noexcept {
  const std::int64_t m = spec.micro_batches;
  const auto rest = static_cast<double>(spec.stages - 1);
  const PhaseTimes first{(slowest.forward - head.forward) / 2,
                         (slowest.backward_input - head.backward_input) / 2,
                         (slowest.backward_weight - head.backward_weight) / 2};
  const auto later =
      static_cast<double>(std::clamp<std::int64_t>(m - spec.stages, 0, spec.stages - 1));
  double last_weight = first.backward_weight + head.backward_weight;
  if (m <= spec.stages) last_weight -= others.backward_weight / rest / 2;
  const double slow = others.forward + others.backward_input - rest * first.total() -
                      later * first.forward - last_weight;
  const double excess = slowest.total() - others.total() / rest;
  const PhaseTimes mean{others.forward / rest, others.backward_input / rest,
                        others.backward_weight / rest};
  return std::max(slow, bubble_of(spec, mean, others) - static_cast<double>(m - 1) * excess);
}

double step_seconds(const ScheduleSpec& spec, std::span<const PhaseTimes> stages) noexcept {
  switch (spec.schedule) {
    case Schedule::kGPipe:
      return gpipe_step(static_cast<double>(spec.micro_batches), stages);
    case Schedule::k1F1B:
    case Schedule::kZbH1:
    case Schedule::kZbH2:
      return longest_path(spec, stages);
    case Schedule::kInterleaved:
    case Schedule::kZbV:
      break;
  }
  const PhaseTimes slowest = *std::max_element(
      stages.begin(), stages.end(),
      [](const PhaseTimes& a, const PhaseTimes& b) { return a.total() < b.total(); });
  const PhaseTimes sum = sum_of(stages);
  return step_seconds(spec, slowest,
                      {sum.forward - slowest.forward, sum.backward_input - slowest.backward_input,
                       sum.backward_weight - slowest.backward_weight});
}

std::int64_t exposed_messages(const ScheduleSpec& spec) noexcept {
  const Messages messages = messages_of(spec);
  return messages.ends + 2 * messages.pairs;
}

double exposed_message_seconds(const ScheduleSpec& spec, double message_s,
                               double slack_s) noexcept {
  const Messages messages = messages_of(spec);
  return static_cast<double>(messages.ends) * message_s +
         static_cast<double>(messages.pairs) *
             std::max(0.0, 2 * message_s - std::max(0.0, slack_s));
}

InFlight in_flight(const ScheduleSpec& spec, std::int64_t stage) noexcept {
  const std::int64_t p = spec.stages;
  const std::int64_t m = spec.micro_batches;
  const std::int64_t v = spec.virtual_stages;
  switch (spec.schedule) {
    case Schedule::kGPipe:
      return {m, 0};
    case Schedule::k1F1B:
      return {std::min(m, p - stage), 0};
    case Schedule::kInterleaved:
      return {std::min(m * v, 2 * (p - stage - 1) + (v - 1) * p + 1), 0};
    case Schedule::kZbH1:
    case Schedule::kZbH2: {
      const std::int64_t whole = zero_bubble_warm_up(spec, stage);
      return {whole, zero_bubble_warm_up(spec, 0) - whole};
    }
    case Schedule::kZbV:
      return {std::min({2 * m, m + 1 + stage, 2 * p}), 0};
  }
  return {};
}

}  // namespace nqd::planner

#include "planner/schedule/closed_form.h"

#include <algorithm>

namespace nqd::planner {
namespace {

// The bubble is a sum over the stages but one, linear in their times: the factors of F, B and W.
PhaseTimes bubble_factors(const ScheduleSpec& spec) noexcept {
  const std::int64_t p = spec.stages;
  const std::int64_t m = spec.micro_batches;
  if (p <= 1) return {};
  const auto others = static_cast<double>(p - 1);
  switch (spec.schedule) {
    case Schedule::kGPipe:
    case Schedule::k1F1B:
      return {1, 1, 1};
    case Schedule::kInterleaved: {
      const double share = 1 / static_cast<double>(spec.virtual_stages);
      return {share, share, share};
    }
    case Schedule::kZbH1:
      return {1, 1, -static_cast<double>(std::min(m - 1, p - 1)) / others};
    case Schedule::kZbH2:
      return {1, 1, -static_cast<double>(std::min(m - 1, 2 * p - 2)) / others};
    case Schedule::kZbV:
      return {1 - static_cast<double>(std::min(m - 1, p - 1)) / others, 1,
              -static_cast<double>(std::clamp<std::int64_t>(m - p, 0, p - 1)) / others};
  }
  return {};
}

double weigh(const PhaseTimes& factors, const PhaseTimes& times) noexcept {
  return std::max(0.0, factors.forward * times.forward +
                           factors.backward_input * times.backward_input +
                           factors.backward_weight * times.backward_weight);
}

double ratio(std::int64_t bubble, std::int64_t work) noexcept {
  return bubble <= 0 ? 0 : static_cast<double>(bubble) / static_cast<double>(work + bubble);
}

}  // namespace

double bubble_seconds(const ScheduleSpec& spec, const PhaseTimes& stage) noexcept {
  return static_cast<double>(spec.stages - 1) * weigh(bubble_factors(spec), stage);
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
         weigh(bubble_factors(spec), others);
}

std::int64_t exposed_messages(const ScheduleSpec& spec) noexcept {
  const std::int64_t p = spec.stages;
  if (p <= 1) return 0;
  const auto tight = [p](std::int64_t m) {
    return 2 * (p - 1) + 2 * ((m - 1) - (m - 1 + p - 1) / p);
  };
  switch (spec.schedule) {
    case Schedule::kGPipe:
    case Schedule::kZbH2:
      return 2 * (p - 1);
    case Schedule::k1F1B:
      return tight(spec.micro_batches);
    case Schedule::kInterleaved:
      return 2 * (p * spec.virtual_stages - 1);
    case Schedule::kZbH1:
      return tight(std::min(spec.micro_batches, p + 1));
    case Schedule::kZbV:
      return 4 * (p - 1) + 2 * std::clamp<std::int64_t>(spec.micro_batches - p - 1, 0, p - 2);
  }
  return 0;
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

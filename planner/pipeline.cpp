#include "planner/pipeline.h"

#include <algorithm>
#include <cmath>

#include "planner/planner.h"
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

std::int64_t virtual_stages(const ParallelSpec& parallel) {
  return parallel.schedule == Schedule::kInterleaved ? std::max<std::int64_t>(parallel.vpp, 1) : 1;
}

std::int64_t micro_batches_of(const Config& config) {
  const std::int64_t replicas = config.train.micro_batch_size * config.parallel.dp;
  return replicas > 0 ? std::max<std::int64_t>(config.train.global_batch_size / replicas, 1) : 1;
}

double in_flight_micro_batches(const Config& config, std::int64_t stage) {
  const std::int64_t m = micro_batches_of(config);
  const std::int64_t p = config.parallel.pp;
  if (p <= 1) return 1;
  const std::int64_t v = virtual_stages(config.parallel);
  switch (config.parallel.schedule) {
    case Schedule::kGPipe:
      return static_cast<double>(m);
    case Schedule::k1F1B:
    case Schedule::kZbH1:
    case Schedule::kZbV:
      return static_cast<double>(std::min(m, p - stage));
    case Schedule::kZbH2:
      return static_cast<double>(std::min(m, 2 * p - 1));
    case Schedule::kInterleaved:
      return static_cast<double>(std::min(m * v, 2 * (p - stage - 1) + (v - 1) * p + 1)) /
             static_cast<double>(v);
  }
  return static_cast<double>(m);
}

PipelinePlan plan_pipeline(const Config& config) {
  const std::int64_t m = micro_batches_of(config);
  return {m, interleaved_bubble_fraction(config.parallel.pp, m, virtual_stages(config.parallel))};
}

std::vector<Diagnostic> check_pipeline(const Config& config, const PipelinePlan& plan) {
  if (plan.bubble_fraction <= kBubbleLimit) return {};
  const std::int64_t p = config.parallel.pp;
  const std::int64_t v = virtual_stages(config.parallel);
  const std::int64_t four_p = 4 * p;
  std::int64_t tenth = micro_batches_for_bubble(p, 0.1, v);
  if (v > 1) tenth = (tenth + p - 1) / p * p;  // interleaving wants a multiple of p
  Diagnostic warning;
  warning.code = "NQD1302";
  warning.severity = Severity::kWarning;
  warning.path = "train.global_batch_size";
  warning.message = percent(plan.bubble_fraction) + " of the step is pipeline bubble with " +
                    std::to_string(p) + " stages and " + std::to_string(plan.micro_batches) +
                    " micro-batches";
  warning.expected = "at most " + percent(kBubbleLimit);
  warning.got = percent(plan.bubble_fraction);
  const std::int64_t sequences = config.train.micro_batch_size * config.parallel.dp;
  warning.hint = "m >= 4p = " + std::to_string(four_p) + " micro-batches (global_batch_size " +
                 std::to_string(four_p * sequences) + ") give " +
                 percent(interleaved_bubble_fraction(p, four_p, v)) +
                 "; at most 10 % needs m >= " + std::to_string(tenth);
  return {warning};
}

}  // namespace nqd::planner

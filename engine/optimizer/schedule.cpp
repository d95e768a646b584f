#include "engine/optimizer/schedule.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <numbers>

namespace nqd::engine {
namespace {

// 0 at `from`, 1 at the last step and past it.
double progress(std::int64_t from, std::int64_t steps, std::int64_t step) {
  if (step >= steps) return 1;
  return static_cast<double>(step - from) / static_cast<double>(steps - from);
}

// The f of the header.
double share_of_peak(const planner::OptimizerSpec& optimizer, std::int64_t steps,
                     std::int64_t step) {
  if (optimizer.schedule == planner::RateSchedule::kConstant) return 1;
  if (optimizer.schedule == planner::RateSchedule::kCosine) {
    return 0.5 * (1.0 + std::cos(std::numbers::pi * progress(optimizer.warmup_steps, steps, step)));
  }
  const std::int64_t last_stable = steps - optimizer.decay_steps;
  if (optimizer.decay_steps == 0 || step <= last_stable) return 1;
  const double done = progress(last_stable, steps, step);
  return 1 - (optimizer.decay_shape == planner::DecayShape::kLinear ? done : std::sqrt(done));
}

}  // namespace

double learning_rate(const planner::OptimizerSpec& optimizer, std::int64_t steps,
                     std::int64_t step) {
  const std::int64_t warmup = optimizer.warmup_steps;
  if (step < warmup) {
    return optimizer.learning_rate * static_cast<double>(step) / static_cast<double>(warmup);
  }
  // Exact at both ends.
  return std::lerp(optimizer.min_learning_rate, optimizer.learning_rate,
                   share_of_peak(optimizer, steps, step));
}

double global_norm(std::span<const float> gradients) {
  // Eight independent sums break the dependency chain; their order is part of the definition.
  constexpr std::size_t kLanes = 8;
  std::array<double, kLanes> sums{};
  std::size_t i = 0;
  for (; i + kLanes <= gradients.size(); i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const auto g = static_cast<double>(gradients[i + lane]);
      sums[lane] += g * g;
    }
  }
  for (std::size_t lane = 0; i < gradients.size(); ++i, ++lane) {
    const auto g = static_cast<double>(gradients[i]);
    sums[lane] += g * g;
  }
  double total = 0;
  for (const double sum : sums) total += sum;
  return std::sqrt(total);
}

double clip_factor(double norm, double max_norm) {
  if (max_norm <= 0 || norm <= max_norm) return 1.0;
  return max_norm / norm;
}

}  // namespace nqd::engine

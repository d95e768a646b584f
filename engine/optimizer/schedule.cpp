#include "engine/optimizer/schedule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numbers>

namespace nqd::engine {

double learning_rate(const planner::OptimizerSpec& optimizer, std::int64_t steps,
                     std::int64_t step) {
  const std::int64_t warmup = optimizer.warmup_steps;
  if (step < warmup) {
    return optimizer.learning_rate * static_cast<double>(step) / static_cast<double>(warmup);
  }
  if (step >= steps) return optimizer.min_learning_rate;
  const double progress = static_cast<double>(step - warmup) /
                          static_cast<double>(std::max<std::int64_t>(steps - warmup, 1));
  const double cosine = 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
  return optimizer.min_learning_rate +
         (optimizer.learning_rate - optimizer.min_learning_rate) * cosine;
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

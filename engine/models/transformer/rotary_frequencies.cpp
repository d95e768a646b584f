#include "engine/models/transformer/rotary_frequencies.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace nqd::engine {
namespace {

double scaled(double frequency, const planner::RopeScaling& scaling) {
  const double turns = static_cast<double>(scaling.original_max_position_embeddings) * frequency /
                       (2 * std::numbers::pi);
  const double kept = std::clamp(
      (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor), 0.0,
      1.0);
  return std::lerp(frequency / scaling.factor, frequency, kept);
}

}  // namespace

std::vector<double> rotary_frequencies(const planner::ModelSpec& model, std::int64_t head_width) {
  std::vector<double> frequencies;
  for (std::int64_t i = 0; i < head_width / 2; ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(head_width);
    frequencies.push_back(scaled(std::pow(model.rope_base, exponent), model.rope_scaling));
  }
  return frequencies;
}

}  // namespace nqd::engine

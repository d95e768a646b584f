#include "engine/numerics/noise_scale.h"

#include <cmath>

namespace nqd::engine {

void NoiseScale::add(double micro_batch_square, double step_square, double micro_batch_sequences,
                     double step_sequences) {
  noise_ += (micro_batch_square - step_square) / (1 / micro_batch_sequences - 1 / step_sequences);
  signal_ += (step_sequences * step_square - micro_batch_sequences * micro_batch_square) /
             (step_sequences - micro_batch_sequences);
}

std::optional<double> NoiseScale::sequences() const {
  const double scale = noise_ / signal_;
  if (!(signal_ > 0) || !(noise_ >= 0) || !std::isfinite(scale)) return std::nullopt;
  return scale;
}

}  // namespace nqd::engine

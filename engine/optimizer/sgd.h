// Stochastic gradient descent with decoupled weight decay, with or without momentum, and the
// exponential moving average of weights.
#pragma once

#include <span>

#include "base/dtype.h"

namespace nqd::engine {

struct SgdOptions {
  float lr = 1e-3F;
  float momentum = 0.9F;     // unused without a velocity
  float weight_decay = 0;    // 0 for vectors (norms, biases)
  float gradient_scale = 1;  // the clip factor, applied as gradients are read
};

// One update in place; all spans have equal length, but `velocity` is empty for plain descent.
//   g ← scale·g; u ← μ u + g (without velocity: u = g); w ← w − lr·λ·w − lr·u
// An element's bits do not depend on its place.
void sgd_step(std::span<float> weights, std::span<const float> gradients, std::span<float> velocity,
              const SgdOptions& options);

// The same, which also writes the new weights to `stored`, rounded to nearest even. S is BFloat16
// or Float16.
template <typename S>
void sgd_step(std::span<float> weights, std::span<S> stored, std::span<const float> gradients,
              std::span<float> velocity, const SgdOptions& options);

// average ← average + (1 − decay) · (weights − average).
void ema_step(std::span<float> average, std::span<const float> weights, float decay);

}  // namespace nqd::engine

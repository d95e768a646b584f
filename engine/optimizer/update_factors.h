// The numbers of one optimizer step that are equal for all elements, for the kernels of every
// device.
#pragma once

#include <cmath>
#include <cstdint>

#include "engine/optimizer/adamw.h"

namespace nqd::engine {

// w ← w · keep − step_size · m / (√v · inverse_root2 + epsilon), with m and v of adamw.h.
struct AdamwFactors {
  AdamwFactors(const AdamwOptions& options, std::int64_t step)
      : scale(options.gradient_scale),
        beta1(options.beta1),
        beta2(options.beta2),
        rest1(1.0F - options.beta1),
        rest2(1.0F - options.beta2),
        epsilon(options.epsilon),
        keep(1.0F - options.lr * options.weight_decay) {
    // The corrections are computed in double: β2ᵗ in float32 is off by up to t ulp.
    const double t = static_cast<double>(step);
    const double correction1 = 1.0 - std::pow(static_cast<double>(options.beta1), t);
    const double correction2 = 1.0 - std::pow(static_cast<double>(options.beta2), t);
    step_size = static_cast<float>(options.lr / correction1);
    inverse_root2 = static_cast<float>(1.0 / std::sqrt(correction2));
  }

  float scale, beta1, beta2, rest1, rest2, epsilon, keep;
  float step_size;      // lr / (1 − β1ᵗ)
  float inverse_root2;  // 1 / √(1 − β2ᵗ)
};

}  // namespace nqd::engine

// AdamW with decoupled weight decay (Loshchilov & Hutter 2019, algorithm 2), float32 state.
#pragma once

#include <cstdint>
#include <span>

#include "base/dtype.h"

namespace nqd::engine {

struct AdamwOptions {
  float lr = 1e-3F;
  float beta1 = 0.9F;
  float beta2 = 0.95F;
  float epsilon = 1e-8F;
  float weight_decay = 0;    // 0 for vectors (norms, biases)
  float gradient_scale = 1;  // the clip factor, applied as gradients are read
};

// One update in place; all spans have equal length. `step` is 1-based (bias correction).
//   g ← scale·g; m ← β1 m + (1−β1) g; v ← β2 v + (1−β2) g²
//   w ← w − lr·λ·w − lr/(1−β1ᵗ) · m / (√v/√(1−β2ᵗ) + ε)
// An element's bits do not depend on its place, so any cut into runs gives the same weights.
void adamw_step(std::span<float> weights, std::span<const float> gradients, std::span<float> m,
                std::span<float> v, std::int64_t step, const AdamwOptions& options);

// The same update of the float32 master weights, which are also written to `stored`, rounded to
// nearest even, while they are in registers. S is BFloat16 or Float16.
template <typename S>
void adamw_step(std::span<float> weights, std::span<S> stored, std::span<const float> gradients,
                std::span<float> m, std::span<float> v, std::int64_t step,
                const AdamwOptions& options);

}  // namespace nqd::engine

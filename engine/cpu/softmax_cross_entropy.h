// The fused end of the model: softmax and cross-entropy, in place on the logits.
#pragma once

#include <cmath>
#include <cstdint>

#include "engine/cpu/math.h"

namespace nqd::engine::cpu {

inline constexpr std::int32_t kMaskedTarget = -1;

// Replaces each row of logits [rows, vocab] whose target is not masked by its softmax, and returns
// the sum over those rows of -log softmax[target], accumulated in double in row order.
template <typename T>
double softmax_cross_entropy_forward(T* logits, const std::int32_t* targets, std::int64_t rows,
                                     std::int64_t vocab) {
  double loss = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    if (targets[row] == kMaskedTarget) continue;
    T* x = logits + row * vocab;
    const double at_target = x[targets[row]];
    const SoftmaxNormaliser<T> normaliser = softmax_in_place(x, vocab);
    loss += static_cast<double>(normaliser.maximum) - at_target +
            std::log(static_cast<double>(normaliser.sum));
  }
  return loss;
}

// Turns what forward left into d(scale · loss)/d(logits): (softmax - one_hot(target)) · scale, and
// 0 in masked rows.
template <typename T>
void softmax_cross_entropy_backward(T* probabilities, const std::int32_t* targets, T scale,
                                    std::int64_t rows, std::int64_t vocab) {
  for (std::int64_t row = 0; row < rows; ++row) {
    T* p = probabilities + row * vocab;
    const bool masked = targets[row] == kMaskedTarget;
    if (masked) {
      for (std::int64_t i = 0; i < vocab; ++i) p[i] = T(0);
    } else {
      p[targets[row]] -= T(1);
      for (std::int64_t i = 0; i < vocab; ++i) p[i] *= scale;
    }
  }
}

extern template double softmax_cross_entropy_forward<float>(float*, const std::int32_t*,
                                                            std::int64_t, std::int64_t);
extern template void softmax_cross_entropy_backward<float>(float*, const std::int32_t*, float,
                                                           std::int64_t, std::int64_t);

}  // namespace nqd::engine::cpu

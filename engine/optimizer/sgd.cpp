#include "engine/optimizer/sgd.h"

#include <cstddef>
#include <type_traits>

#include "engine/cpu/storage.h"

namespace nqd::engine {
namespace {

template <typename S, bool kVelocity>
void update(float* weights, S* stored, const float* gradients, float* velocity, std::size_t n,
            const SgdOptions& options) {
  const float keep = 1.0F - options.lr * options.weight_decay;
  const float lr = options.lr;
  const float momentum = options.momentum;
  const float scale = options.gradient_scale;
  float* __restrict w = weights;
  S* __restrict low = stored;
  const float* __restrict g = gradients;
  float* __restrict u = velocity;
  for (std::size_t i = 0; i < n; ++i) {
    float move = g[i] * scale;
    if constexpr (kVelocity) {
      move = momentum * u[i] + move;
      u[i] = move;
    }
    const float w_new = w[i] * keep - lr * move;
    w[i] = w_new;
    if constexpr (!std::is_same_v<S, float>) low[i] = cpu::narrow<S>(w_new);
  }
}

template <typename S>
void update_any(std::span<float> weights, S* stored, std::span<const float> gradients,
                std::span<float> velocity, const SgdOptions& options) {
  if (velocity.empty()) {
    update<S, false>(weights.data(), stored, gradients.data(), nullptr, weights.size(), options);
  } else {
    update<S, true>(weights.data(), stored, gradients.data(), velocity.data(), weights.size(),
                    options);
  }
}

}  // namespace

void sgd_step(std::span<float> weights, std::span<const float> gradients, std::span<float> velocity,
              const SgdOptions& options) {
  update_any<float>(weights, nullptr, gradients, velocity, options);
}

template <typename S>
void sgd_step(std::span<float> weights, std::span<S> stored, std::span<const float> gradients,
              std::span<float> velocity, const SgdOptions& options) {
  update_any<S>(weights, stored.data(), gradients, velocity, options);
}

void ema_step(std::span<float> average, std::span<const float> weights, float decay) {
  const float rest = 1.0F - decay;
  float* __restrict e = average.data();
  const float* __restrict w = weights.data();
  const std::size_t n = average.size();
  for (std::size_t i = 0; i < n; ++i) e[i] += rest * (w[i] - e[i]);
}

template void sgd_step<BFloat16>(std::span<float>, std::span<BFloat16>, std::span<const float>,
                                 std::span<float>, const SgdOptions&);
template void sgd_step<Float16>(std::span<float>, std::span<Float16>, std::span<const float>,
                                std::span<float>, const SgdOptions&);

}  // namespace nqd::engine

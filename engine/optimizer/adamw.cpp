#include "engine/optimizer/adamw.h"

#include <cmath>
#include <cstddef>
#include <type_traits>

#include "engine/cpu/storage.h"

namespace nqd::engine {
namespace {

// `stored` is written where S is not float.
template <typename S>
void update(float* weights, S* stored, const float* gradients, float* m, float* v, std::size_t n,
            std::int64_t step, const AdamwOptions& options) {
  // The corrections are computed in double: β2ᵗ in float32 is off by up to t ulp.
  const double t = static_cast<double>(step);
  const double correction1 = 1.0 - std::pow(static_cast<double>(options.beta1), t);
  const double correction2 = 1.0 - std::pow(static_cast<double>(options.beta2), t);
  const auto step_size = static_cast<float>(options.lr / correction1);
  const auto inverse_root2 = static_cast<float>(1.0 / std::sqrt(correction2));
  const float keep = 1.0F - options.lr * options.weight_decay;
  const float beta1 = options.beta1;
  const float beta2 = options.beta2;
  const float rest1 = 1.0F - beta1;
  const float rest2 = 1.0F - beta2;
  const float epsilon = options.epsilon;
  const float scale = options.gradient_scale;
  float* __restrict w = weights;
  S* __restrict low = stored;
  const float* __restrict g = gradients;
  float* __restrict m_data = m;
  float* __restrict v_data = v;
  for (std::size_t i = 0; i < n; ++i) {
    const float gradient = g[i] * scale;
    const float m_new = beta1 * m_data[i] + rest1 * gradient;
    const float v_new = beta2 * v_data[i] + rest2 * gradient * gradient;
    const float w_new =
        w[i] * keep - step_size * (m_new / (std::sqrt(v_new) * inverse_root2 + epsilon));
    m_data[i] = m_new;
    v_data[i] = v_new;
    w[i] = w_new;
    if constexpr (!std::is_same_v<S, float>) low[i] = cpu::narrow<S>(w_new);
  }
}

}  // namespace

void adamw_step(std::span<float> weights, std::span<const float> gradients, std::span<float> m,
                std::span<float> v, std::int64_t step, const AdamwOptions& options) {
  update<float>(weights.data(), nullptr, gradients.data(), m.data(), v.data(), weights.size(), step,
                options);
}

template <typename S>
void adamw_step(std::span<float> weights, std::span<S> stored, std::span<const float> gradients,
                std::span<float> m, std::span<float> v, std::int64_t step,
                const AdamwOptions& options) {
  update<S>(weights.data(), stored.data(), gradients.data(), m.data(), v.data(), weights.size(),
            step, options);
}

template void adamw_step<BFloat16>(std::span<float>, std::span<BFloat16>, std::span<const float>,
                                   std::span<float>, std::span<float>, std::int64_t,
                                   const AdamwOptions&);
template void adamw_step<Float16>(std::span<float>, std::span<Float16>, std::span<const float>,
                                  std::span<float>, std::span<float>, std::int64_t,
                                  const AdamwOptions&);

}  // namespace nqd::engine

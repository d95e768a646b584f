#include "engine/optimizer/adamw.h"

#include <cmath>
#include <cstddef>

namespace nqd::engine {

void adamw_step(std::span<float> weights, std::span<const float> gradients, std::span<float> m,
                std::span<float> v, std::int64_t step, const AdamwOptions& options) {
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
  float* __restrict w = weights.data();
  const float* __restrict g = gradients.data();
  float* __restrict m_data = m.data();
  float* __restrict v_data = v.data();
  const std::size_t n = weights.size();
  for (std::size_t i = 0; i < n; ++i) {
    const float gradient = g[i] * scale;
    const float m_new = beta1 * m_data[i] + rest1 * gradient;
    const float v_new = beta2 * v_data[i] + rest2 * gradient * gradient;
    m_data[i] = m_new;
    v_data[i] = v_new;
    w[i] = w[i] * keep - step_size * (m_new / (std::sqrt(v_new) * inverse_root2 + epsilon));
  }
}

}  // namespace nqd::engine

#include "engine/optimizer/adamw.h"

#include <cmath>
#include <cstddef>
#include <type_traits>

#include "engine/cpu/storage.h"
#include "engine/optimizer/update_factors.h"

namespace nqd::engine {
namespace {

// `stored` is written where S is not float.
template <typename S>
void update(float* weights, S* stored, const float* gradients, float* m, float* v, std::size_t n,
            std::int64_t step, const AdamwOptions& options) {
  // By value: stores to the arrays cannot alias them.
  const AdamwFactors f(options, step);
  float* __restrict w = weights;
  S* __restrict low = stored;
  const float* __restrict g = gradients;
  float* __restrict m_data = m;
  float* __restrict v_data = v;
  for (std::size_t i = 0; i < n; ++i) {
    const float gradient = g[i] * f.scale;
    const float m_new = f.beta1 * m_data[i] + f.rest1 * gradient;
    const float v_new = f.beta2 * v_data[i] + f.rest2 * gradient * gradient;
    const float w_new =
        w[i] * f.keep - f.step_size * (m_new / (std::sqrt(v_new) * f.inverse_root2 + f.epsilon));
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

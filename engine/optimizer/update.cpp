#include "engine/optimizer/update.h"

#include <cstddef>

#include "engine/optimizer/adamw.h"
#include "engine/optimizer/schedule.h"

namespace nqd::engine {

void update_parameters(Gpt& model, std::span<float> m, std::span<float> v,
                       const planner::OptimizerSpec& optimizer, std::int64_t step, double lr,
                       double grad_norm) {
  AdamwOptions options;
  options.lr = static_cast<float>(lr);
  options.beta1 = static_cast<float>(optimizer.beta1);
  options.beta2 = static_cast<float>(optimizer.beta2);
  options.epsilon = static_cast<float>(optimizer.epsilon);
  options.gradient_scale = static_cast<float>(clip_factor(grad_norm, optimizer.grad_clip));
  for (const ParameterView& view : model.parameter_views()) {
    options.weight_decay = view.spec.decay ? static_cast<float>(optimizer.weight_decay) : 0.0F;
    const auto offset = static_cast<std::size_t>(view.offset);
    const auto elements = static_cast<std::size_t>(view.spec.elements());
    adamw_step(model.weights().subspan(offset, elements),
               model.gradients().subspan(offset, elements), m.subspan(offset, elements),
               v.subspan(offset, elements), step, options);
  }
}

}  // namespace nqd::engine

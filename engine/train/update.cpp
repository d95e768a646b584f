#include "engine/train/update.h"

#include <utility>

#include "engine/optimizer/adamw.h"

namespace nqd::engine {

void update_weights(UnitStore& store, const planner::OptimizerSpec& optimizer, std::int64_t step,
                    double lr, double gradient_scale, bool forget_one) {
  AdamwOptions options;
  options.lr = static_cast<float>(lr);
  options.beta1 = static_cast<float>(optimizer.beta1);
  options.beta2 = static_cast<float>(optimizer.beta2);
  options.epsilon = static_cast<float>(optimizer.epsilon);
  options.gradient_scale = static_cast<float>(gradient_scale);
  store.for_each_shard([&](const ShardRun& run) {
    if (std::exchange(forget_one, false)) return;
    const bool decays = run.tensor->full.decay;
    options.weight_decay = decays ? static_cast<float>(optimizer.weight_decay) : 0.0F;
    adamw_step(run.weights, run.gradient, run.moments[0], run.moments[1], step, options);
  });
  store.publish();
}

}  // namespace nqd::engine

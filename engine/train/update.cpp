#include "engine/train/update.h"

#include <functional>
#include <utility>

namespace nqd::engine {
namespace {

// The decay of torch.optim.swa_utils.get_ema_multi_avg_fn.
constexpr float kEmaDecay = 0.999F;

float decay_of(const planner::OptimizerSpec& optimizer, const ShardRun& run) {
  return run.tensor->full.decay ? static_cast<float>(optimizer.weight_decay) : 0.0F;
}

// AdamW keeps two moments, SGD one or none.
void update_run(Device& device, const ShardRun& run, const planner::OptimizerSpec& optimizer,
                std::int64_t step, double lr, double gradient_scale) {
  if (optimizer.kind == planner::OptimizerKind::kAdamW) {
    AdamwOptions options;
    options.lr = static_cast<float>(lr);
    options.beta1 = static_cast<float>(optimizer.beta1);
    options.beta2 = static_cast<float>(optimizer.beta2);
    options.epsilon = static_cast<float>(optimizer.epsilon);
    options.gradient_scale = static_cast<float>(gradient_scale);
    options.weight_decay = decay_of(optimizer, run);
    device.adamw_step(run.weights, run.gradient, run.moments[0], run.moments[1], step, options,
                      run.stored);
    return;
  }
  SgdOptions options;
  options.lr = static_cast<float>(lr);
  options.momentum = static_cast<float>(optimizer.beta1);
  options.gradient_scale = static_cast<float>(gradient_scale);
  options.weight_decay = decay_of(optimizer, run);
  const std::span<float> velocity = run.moments.empty() ? std::span<float>() : run.moments[0];
  device.sgd_step(run.weights, run.gradient, velocity, options, run.stored);
}

}  // namespace

void update_weights(UnitStore& store, const planner::OptimizerSpec& optimizer, std::int64_t step,
                    double lr, double gradient_scale, bool forget_one) {
  Device& device = store.device();
  const auto update = [&](const ShardRun& run) {
    if (std::exchange(forget_one, false)) return;
    update_run(device, run, optimizer, step, lr, gradient_scale);
    if (!run.ema.empty()) device.ema_step(run.ema, run.weights, kEmaDecay);
  };
  // By reference: what it captures does not fit into a std::function without an allocation.
  store.for_each_shard(std::ref(update));
  store.publish(Narrowed::kByUpdate);
}

}  // namespace nqd::engine

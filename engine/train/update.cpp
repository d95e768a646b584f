#include "engine/train/update.h"

#include <functional>
#include <utility>

#include "engine/optimizer/adamw.h"
#include "engine/optimizer/sgd.h"
#include "engine/parallel/store/share_out.h"

namespace nqd::engine {
namespace {

// The decay of torch.optim.swa_utils.get_ema_multi_avg_fn.
constexpr float kEmaDecay = 0.999F;

float decay_of(const planner::OptimizerSpec& optimizer, const ShardRun& run) {
  return run.tensor->full.decay ? static_cast<float>(optimizer.weight_decay) : 0.0F;
}

// Those of a run that one worker updates.
struct Elements {
  std::int64_t begin = 0;
  std::int64_t count = 0;

  std::span<float> of(std::span<float> run) const {
    return run.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count));
  }
};

// AdamW keeps two moments, SGD one or none.
void update_run(const ShardRun& run, const Elements& own, const planner::OptimizerSpec& optimizer,
                std::int64_t step, double lr, double gradient_scale) {
  if (optimizer.kind == planner::OptimizerKind::kAdamW) {
    AdamwOptions options;
    options.lr = static_cast<float>(lr);
    options.beta1 = static_cast<float>(optimizer.beta1);
    options.beta2 = static_cast<float>(optimizer.beta2);
    options.epsilon = static_cast<float>(optimizer.epsilon);
    options.gradient_scale = static_cast<float>(gradient_scale);
    options.weight_decay = decay_of(optimizer, run);
    adamw_step(own.of(run.weights), own.of(run.gradient), own.of(run.moments[0]),
               own.of(run.moments[1]), step, options);
    return;
  }
  SgdOptions options;
  options.lr = static_cast<float>(lr);
  options.momentum = static_cast<float>(optimizer.beta1);
  options.gradient_scale = static_cast<float>(gradient_scale);
  options.weight_decay = decay_of(optimizer, run);
  const std::span<float> velocity =
      run.moments.empty() ? std::span<float>() : own.of(run.moments[0]);
  sgd_step(own.of(run.weights), own.of(run.gradient), velocity, options);
}

}  // namespace

void update_weights(UnitStore& store, const planner::OptimizerSpec& optimizer, std::int64_t step,
                    double lr, double gradient_scale, WorkerPool* workers, bool forget_one) {
  const auto update = [&](const ShardRun& run) {
    if (std::exchange(forget_one, false)) return;
    share_out(workers, static_cast<std::int64_t>(run.weights.size()),
              [&](int, std::int64_t begin, std::int64_t end) {
                const Elements own{begin, end - begin};
                update_run(run, own, optimizer, step, lr, gradient_scale);
                if (!run.ema.empty()) ema_step(own.of(run.ema), own.of(run.weights), kEmaDecay);
              });
  };
  // By reference: what it captures does not fit into a std::function without an allocation.
  store.for_each_shard(std::ref(update));
  store.publish();
}

}  // namespace nqd::engine

#include "engine/train/closing_figures.h"

#include <utility>
#include <vector>

#include "engine/audit.h"
#include "engine/parallel/store/export.h"
#include "engine/train/device_check.h"
#include "planner/plan/time.h"

namespace nqd::engine {

void settle_step_times(collectives::Communicator& control, const planner::Plan& plan,
                       TrainResult& result) {
  std::vector<double> times;
  for (const StepRecord& step : result.steps) times.push_back(step.step_s);
  const std::size_t made = times.size();
  times.resize(static_cast<std::size_t>(plan.config.train.steps));
  control.all_reduce(std::as_bytes(std::span(times)), std::as_writable_bytes(std::span(times)),
                     DType::kFloat64, collectives::ReduceOp::kMax, collectives::Algorithm::kRing);
  for (std::size_t i = 0; i < made; ++i) result.steps[i].step_s = times[i];
  const double median_s = median_step_s(result.steps);
  if (median_s <= 0) return;
  result.tokens_per_s = static_cast<double>(result.steps.back().tokens) / median_s;
  const planner::Config& config = plan.config;
  const double flops = planner::sample_flops(config.model, config.train.recompute).model *
                       static_cast<double>(config.train.global_batch_size);
  // Ranks that share a GPU share its peak.
  const double ranks_a_device =
      static_cast<double>(result.ranks.size()) / static_cast<double>(device_count(result.ranks));
  result.mfu = planner::utilisation(config, flops / median_s) * ranks_a_device;
}

void record_device(const RankState& state, TrainResult& result) {
  if (state.device().is_host()) return;
  StepGraphRecord graph{state.runner().repeated_steps(), state.why_plain()};
  if (graph.reason.empty()) {
    graph.reason = "a first step prepares, a second is recorded, and some measure their gradients";
  }
  result.step_graph = std::move(graph);
  result.uncounted_memory = state.device().uncounted_memory();
}

void hand_out_weights(
    collectives::Communicator& world, const planner::Config& config, UnitStore& store,
    const std::function<void(const std::string& name, std::span<const float> values)>& on_weights,
    TrainResult& result) {
  const std::vector<ChunkOwners> owners = model_owners(config);
  result.weights_sha256 = weights_sha256(store, owners, world);
  if (!on_weights) return;
  export_tensors(store, owners, world,
                 [&](const planner::TensorSpec& tensor, std::span<const float> values) {
                   on_weights(tensor.name, values);
                 });
}

}  // namespace nqd::engine

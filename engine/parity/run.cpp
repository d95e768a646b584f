#include <utility>

#include "base/error.h"
#include "collectives/world.h"
#include "engine/parity/compare.h"
#include "engine/trainer.h"
#include "planner/planner.h"

namespace nqd::engine {

ParityRun run_on_threads(const planner::Config& config, const TrainingData& data, Mutant mutant) {
  ParityRun run;
  TrainResult result;
  const planner::Plan plan = planner::make_plan(config);
  TrainOptions options;
  options.seeded.mutant = mutant;
  options.on_weights = [&](const std::string& name, std::span<const float> values) {
    run.weights[name].assign(values.begin(), values.end());
  };
  try {
    collectives::run_threads(static_cast<int>(config.parallel.ranks()), {},
                             [&](collectives::Communicator& world) {
                               TrainResult own;
                               train(world, plan, data, options, own);
                               if (world.rank() == 0) result = std::move(own);
                             });
  } catch (const Error& error) {
    run.error = error.code() + ": " + error.what();
    return run;
  }
  for (const StepRecord& step : result.steps) {
    run.losses.push_back(step.loss);
    run.grad_norms.push_back(step.grad_norm);
  }
  if (!result.evals.empty()) run.heldout_loss = result.evals.back().loss;
  run.weights_sha256 = result.weights_sha256;
  for (const AuditRow& row : result.audit) {
    if (row.exact && !row.ok) run.audit_failures.push_back(row.category);
  }
  return run;
}

}  // namespace nqd::engine

#include <filesystem>
#include <utility>

#include "base/error.h"
#include "engine/parity/compare.h"
#include "engine/train/on_threads.h"
#include "planner/planner.h"

namespace nqd::engine {
namespace {

// All of a run, or a part of it.
struct Part {
  std::filesystem::path saves;  // where it saves; empty: nowhere
  bool resumes = false;         // from there
  std::int64_t stop_after = 0;  // step behind which it saves and stops; 0: it goes to its end
};

void append(std::vector<double>& to, const std::vector<double>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

ParityRun run_part(const planner::Config& config, const TrainingData& data, Mutant mutant,
                   const Part& part) {
  std::map<std::string, std::vector<float>> weights;
  TrainOptions options;
  options.seeded.mutant = mutant;
  options.checkpoints.folder = part.saves;
  if (part.resumes) options.checkpoints.resume = part.saves;
  options.on_weights = [&](const std::string& name, std::span<const float> values) {
    weights[name].assign(values.begin(), values.end());
  };
  // Asked during the step behind those that the result has.
  const auto is_last = [&](const TrainResult& so_far) {
    return static_cast<std::int64_t>(so_far.steps.size()) + 1 == part.stop_after;
  };
  ParityRun run;
  try {
    run = parity_run_of(train_on_threads(planner::make_plan(config), data, options, is_last));
  } catch (const Error& error) {
    run.error = error.code() + ": " + error.what();
    return run;
  }
  run.weights = std::move(weights);
  return run;
}

}  // namespace

ParityRun parity_run_of(const TrainResult& result) {
  ParityRun run;
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

ParityRun joined(ParityRun first, ParityRun second) {
  if (!first.error.empty()) return first;
  append(first.losses, second.losses);
  append(first.grad_norms, second.grad_norms);
  second.losses = std::move(first.losses);
  second.grad_norms = std::move(first.grad_norms);
  second.audit_failures.insert(second.audit_failures.begin(), first.audit_failures.begin(),
                               first.audit_failures.end());
  return second;
}

ParityRun run_on_threads(const planner::Config& config, const TrainingData& data, Mutant mutant) {
  return run_part(config, data, mutant, {});
}

ParityRun run_on_threads(const ParityCell& cell, const TrainingData& data,
                         const std::filesystem::path& folder, Mutant mutant) {
  if (!cell.saved_by) return run_part(cell.config, data, mutant, {});
  std::filesystem::create_directories(folder);
  ParityRun first = run_part(*cell.saved_by, data, mutant, {folder, false, cell.saved_after()});
  if (!first.error.empty()) return first;
  return joined(std::move(first), run_part(cell.config, data, mutant, {folder, true, 0}));
}

}  // namespace nqd::engine

#include "engine/scale/campaign.h"

#include <algorithm>
#include <utility>

#include "base/diagnostic.h"
#include "base/error.h"
#include "base/host.h"
#include "engine/train/preflight.h"
#include "planner/layout/activation_buffers.h"
#include "planner/planner.h"
#include "planner/reference/reference_plan.h"

namespace nqd::engine {
namespace {

using planner::Config;

std::int64_t replicas(const Config& base, std::int64_t ranks) {
  return std::max<std::int64_t>(ranks / (base.parallel.tp * base.parallel.pp), 1);
}

std::int64_t batch_of(const ScaleOptions& options, const Config& base, ScaleRegime regime,
                      std::int64_t ranks) {
  const std::int64_t batch = base.train.global_batch_size;
  if (regime == ScaleRegime::kEqualGlobalBatch) return batch;
  return batch * replicas(base, ranks) / replicas(base, options.ranks.front());
}

std::vector<std::string> overrides_of(const ScaleOptions& options, const Config& base,
                                      std::int64_t ranks, std::int64_t batch) {
  const std::int64_t dp = replicas(base, ranks);
  std::vector<std::string> changes = {
      "cluster.nodes=1",
      "cluster.gpus_per_node=" + std::to_string(ranks),
      "parallel.world_size=" + std::to_string(ranks),
      "parallel.dp=" + std::to_string(dp),
      "train.global_batch_size=" + std::to_string(batch),
      "train.steps=" + std::to_string(options.warmup + options.steps),
      "train.eval_every=0",
      "checkpoint.every=0",
      "checkpoint.every_s=0",
      "checkpoint.durable_path=",
  };
  if (dp == 1) {
    changes.emplace_back("parallel.engine=ddp");
    changes.emplace_back("parallel.hsdp_shard=0");
  }
  return changes;
}

std::string mesh_text(const planner::ParallelSpec& mesh) {
  return std::to_string(mesh.dp) + "x" + std::to_string(mesh.tp) + "x" + std::to_string(mesh.pp);
}

std::string first_error(const std::vector<Diagnostic>& diagnostics) {
  const auto found = std::find_if(
      diagnostics.begin(), diagnostics.end(),
      [](const Diagnostic& diagnostic) { return diagnostic.severity == Severity::kError; });
  return found == diagnostics.end() ? "" : found->code + ": " + found->message;
}

// Why this machine cannot run it, or "".
std::string refusal_of(const planner::LoadedConfig& loaded, const planner::Plan& plan) {
  if (!loaded.ok()) return first_error(loaded.diagnostics);
  if (!plan.valid) return first_error(plan.diagnostics);
  if (const auto refusal = planner::engine_refusal(loaded.config)) {
    return "NQD1401: the engine cannot run " + refusal->what;
  }
  try {
    check_host_memory(plan.memory.worst_total_bytes, read_host_info(),
                      static_cast<int>(loaded.config.parallel.ranks()), "");
  } catch (const Error& error) {
    return error.code() + ": " + error.what();
  }
  return "";
}

ScalePoint point_of(ScaleRegime regime, const planner::Plan& plan) {
  const Config& config = plan.config;
  ScalePoint point;
  point.regime = regime;
  point.ranks = config.parallel.ranks();
  point.engine = name(config.parallel.engine);
  point.mesh = mesh_text(config.parallel);
  point.global_batch = config.train.global_batch_size;
  point.tokens = config.train.global_batch_size * config.model.sequence;
  point.oversubscribed = point.ranks * config.train.threads > read_host_info().usable_cpus;
  point.predicted_step_s = plan.time.step_s;
  return point;
}

std::optional<std::size_t> same_task(const std::vector<ScaleTask>& tasks, const ScalePoint& point) {
  const auto same = std::find_if(tasks.begin(), tasks.end(), [&](const ScaleTask& task) {
    return task.point.ranks == point.ranks && task.point.global_batch == point.global_batch;
  });
  if (same == tasks.end()) return std::nullopt;
  return static_cast<std::size_t>(same - tasks.begin());
}

ScaleRun run_of(const TrainResult& result, std::int64_t seed) {
  ScaleRun run;
  run.seed = seed;
  for (const StepRecord& step : result.steps) run.step_s.push_back(step.step_s);
  if (!result.evals.empty()) run.heldout_loss = result.evals.back().loss;
  run.weights_sha256 = result.weights_sha256;
  for (const AuditRow& row : result.audit) {
    if (row.exact && !row.ok) run.audit_failures.push_back(row.category);
  }
  return run;
}

}  // namespace

std::vector<ScaleTask> scale_tasks(const ScaleOptions& options, const planner::LoadedConfig& base) {
  std::vector<ScaleTask> tasks;
  std::string refused;
  for (const ScaleRegime regime : options.regimes) {
    for (const std::int64_t ranks : options.ranks) {
      ScaleTask task;
      const std::int64_t batch = batch_of(options, base.config, regime, ranks);
      task.overrides = overrides_of(options, base.config, ranks, batch);
      planner::LoadOptions load{options.overrides, options.cluster_file};
      load.overrides.insert(load.overrides.end(), task.overrides.begin(), task.overrides.end());
      const planner::LoadedConfig loaded = planner::load_config(options.config, load);
      if (loaded.ok()) task.plan = planner::make_plan(loaded.config);
      if (const std::string reason = refusal_of(loaded, task.plan); !reason.empty()) {
        refused +=
            "\n  " + std::to_string(ranks) + " ranks, " + std::string(name(regime)) + ": " + reason;
        continue;
      }
      task.point = point_of(regime, task.plan);
      task.same_as = same_task(tasks, task.point);
      tasks.push_back(std::move(task));
    }
  }
  if (refused.empty()) return tasks;
  throw Error(ExitCode::kNo, "NQD1410",
              options.config + " cannot run on every count of ranks:" + refused,
              "leave these counts out of --ranks, choose another --regime, or set "
              "train.micro_batch_size and train.global_batch_size to what they divide");
}

ScaleResult run_scale(const ScaleOptions& options, const Config& base, std::vector<ScaleTask> tasks,
                      const ScaleRunner& runner,
                      const std::function<void(const ScalePoint&, std::int64_t seed)>& on_run) {
  ScaleResult result;
  result.launcher = options.launcher;
  result.canonical = base.numerics.mode == collectives::Numerics::kCanonical;
  result.threads = base.train.threads;
  result.cpus = read_host_info().usable_cpus;
  result.warmup = options.warmup;
  result.steps = options.steps;
  result.margin = options.margin;
  for (std::int64_t seed = base.train.seed; seed < base.train.seed + options.seeds; ++seed) {
    for (ScaleTask& task : tasks) {
      if (task.same_as) continue;
      on_run(task.point, seed);
      const TrainResult trained = runner(task, seed);
      task.point.runs.push_back(run_of(trained, seed));
      if (!trained.data_digest.empty()) result.data_digest = trained.data_digest;
      result.data_synthetic = trained.data_synthetic;
    }
  }
  for (const ScaleTask& task : tasks) {
    result.points.push_back(task.point);
    if (task.same_as) result.points.back().runs = tasks[*task.same_as].point.runs;
  }
  return result;
}

}  // namespace nqd::engine

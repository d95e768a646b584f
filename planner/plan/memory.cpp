#include "planner/plan/memory.h"

#include <algorithm>
#include <cmath>

#include "base/units.h"
#include "collectives/cost_scratch.h"
#include "planner/estimate/memory/runtime_memory.h"
#include "planner/estimate/memory_model.h"
#include "planner/mesh/fabric.h"
#include "planner/mesh/stages.h"
#include "planner/reference/reference_plan.h"

namespace nqd::planner {
namespace {

Diagnostic note(const std::string& code, Severity severity, const std::string& path,
                const std::string& message, const std::string& hint) {
  Diagnostic diagnostic;
  diagnostic.code = code;
  diagnostic.severity = severity;
  diagnostic.path = path;
  diagnostic.message = message;
  diagnostic.hint = hint;
  return diagnostic;
}

}  // namespace

StateBytes state_bytes(const TrainSpec& train) {
  const bool sixteen_bits = train.precision != Precision::kFloat32;
  const bool fsdp2 = train.runtime == Runtime::kFsdp2;
  StateBytes bytes;
  bytes.weights = fsdp2 ? 0 : static_cast<double>(weight_bytes(train));
  bytes.gradients = fsdp2 ? 4 : static_cast<double>(gradient_bytes(train));
  if (train.runtime == Runtime::kDeepSpeed && bytes.gradients < 4) bytes.gradients_of_optimizer = 4;
  bytes.master = sixteen_bits || fsdp2 ? 4 : 0;
  switch (train.optimizer.kind) {
    case OptimizerKind::kAdamW:
      bytes.moments = 8;
      break;
    case OptimizerKind::kSgdMomentum:
      bytes.moments = 4;
      break;
    case OptimizerKind::kSgd:
      break;
  }
  bytes.ema = train.ema ? 4 : 0;
  if (train.optimizer.offload) {
    bytes.gradients_of_optimizer = 0;
    // fsdp2's float32 shards are what it gathers from.
    bytes.master = fsdp2 ? 4 : 0;
    bytes.moments = 0;
    bytes.ema = 0;
  }
  return bytes;
}

namespace {

ShardCounts shared_by(Engine engine, std::int64_t ranks) {
  switch (engine) {
    case Engine::kDdp:
      return {1, 1, 1};
    case Engine::kZero1:
      return {1, 1, ranks};
    case Engine::kZero2:
      return {1, ranks, ranks};
    case Engine::kZero3:
    case Engine::kHsdp:
      return {ranks, ranks, ranks};
  }
  return {1, 1, 1};
}

// Ranks of dp that share a shard; hsdp's group of the base is kept while it divides dp.
std::int64_t sharing_dp(const Config& base, const Candidate& candidate) {
  const std::int64_t dp = std::max<std::int64_t>(candidate.dp, 1);
  if (candidate.engine != Engine::kHsdp) return dp;
  ParallelSpec parallel = base.parallel;
  if (parallel.hsdp_shard > 0 && dp % parallel.hsdp_shard == 0) return parallel.hsdp_shard;
  parallel.dp = dp;
  parallel.tp = candidate.tp;
  parallel.pp = candidate.pp;
  parallel.cp = candidate.cp;
  return default_hsdp_shard(base.cluster, parallel);
}

}  // namespace

ShardCounts shard_counts(const Config& config) {
  return shard_counts(config, candidate_of(config));
}

ShardCounts shard_counts(const Config& base, const Candidate& candidate) {
  const std::int64_t cp = std::max<std::int64_t>(candidate.cp, 1);
  return shared_by(candidate.engine, cp * sharing_dp(base, candidate));
}

ShardCounts expert_shard_counts(const Config& base, const Candidate& candidate) {
  const std::int64_t tp = std::max<std::int64_t>(candidate.tp, 1);
  const std::int64_t cp = std::max<std::int64_t>(candidate.cp, 1);
  const std::int64_t expert_tp = expert_tp_of(base.parallel, tp);
  const std::int64_t divided = std::max<std::int64_t>(candidate.ep, 1) * expert_tp;
  const std::int64_t ranks = tp * cp * sharing_dp(base, candidate) / divided;
  return shared_by(candidate.engine, std::max<std::int64_t>(ranks, 1));
}

MemoryPlan plan_memory(const Config& config) {
  if (runs_on_reference_engine(config)) return plan_reference_engine(config).memory;
  return MemoryModel(config).stages(candidate_of(config));
}

std::string dominant_category(const StageMemory& stage) {
  const auto largest =
      std::max_element(stage.categories.begin(), stage.categories.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return largest == stage.categories.end() ? std::string() : largest->first;
}

const StageMemory& worst_stage(const MemoryPlan& plan) {
  return *std::max_element(
      plan.stages.begin(), plan.stages.end(),
      [](const StageMemory& a, const StageMemory& b) { return a.total_bytes < b.total_bytes; });
}

std::int64_t min_ranks_for_state(double parameters, double bytes_per_parameter,
                                 double memory_bytes) {
  return static_cast<std::int64_t>(std::ceil(parameters * bytes_per_parameter / memory_bytes));
}

std::vector<Diagnostic> check_memory(const Config& config, const MemoryPlan& plan) {
  std::vector<Diagnostic> notes;
  if (config.model.family == "state") {
    notes.push_back(
        note("NQD1303", Severity::kNote, "model",
             "only the parameter count of this model is known: the plan holds state memory and "
             "gradient traffic, but no activations and no step time",
             "leave room for activations, or describe the model's shape"));
  }
  if (plan.limit_bytes <= 0) {
    notes.push_back(note("NQD1304", Severity::kNote, "cluster.memory_bytes",
                         "the memory of a device is not given, so that nothing can be said about "
                         "whether the plan fits",
                         "set cluster.memory_bytes, or name a cluster preset"));
  } else if (plan.fits && !runs_on_reference_engine(config) &&
             plan.worst_total_bytes > (1 - kHeadroomFraction) * plan.limit_bytes) {
    notes.push_back(note("NQD1307", Severity::kWarning, "cluster.memory_bytes",
                         "fits with only " +
                             format_bytes(plan.limit_bytes - plan.worst_total_bytes) +
                             " to spare, which library workspaces and allocator fragmentation may "
                             "take",
                         "leave 10 % of the device's memory free"));
  }
  return notes;
}

}  // namespace nqd::planner

#include "planner/memory.h"

#include <algorithm>
#include <cmath>

#include "base/ledger.h"
#include "base/units.h"
#include "collectives/types.h"
#include "planner/activations.h"
#include "planner/buckets.h"
#include "planner/fabric.h"
#include "planner/pipeline.h"
#include "planner/planner.h"
#include "planner/stages.h"

namespace nqd::planner {
namespace {

void put(StageMemory& stage, MemoryTag tag, double bytes) {
  if (bytes <= 0) return;
  stage.categories[std::string(name(tag))] += bytes;
  (is_persistent(tag) ? stage.persistent_bytes : stage.transient_bytes) += bytes;
  stage.total_bytes += bytes;
}

// Shards are equal and the last is padded: every rank allocates the ceiling.
double shard_elements(double elements, std::int64_t ranks) {
  return std::ceil(elements / static_cast<double>(ranks));
}

void put_state(const Config& config, const StageLayout& layout, StageMemory& stage) {
  const StateBytes bytes = state_bytes(config.train);
  const ShardCounts shards = shard_counts(config);
  const double optimizer_elements = shard_elements(layout.parameters, shards.optimizer);
  put(stage, MemoryTag::kWeights,
      bytes.weights * shard_elements(layout.parameters, shards.weights));
  put(stage, MemoryTag::kGradients,
      bytes.gradients * shard_elements(layout.parameters, shards.gradients));
  put(stage, MemoryTag::kMaster, bytes.master * optimizer_elements);
  put(stage, MemoryTag::kMoments, bytes.moments * optimizer_elements);
  put(stage, MemoryTag::kEma, bytes.ema * optimizer_elements);
}

// The unit in use and the next one, which is prefetched while it computes.
double gathered_elements(const std::vector<double>& units) {
  double most = units.empty() ? 0 : units.front();
  for (std::size_t i = 0; i + 1 < units.size(); ++i) {
    most = std::max(most, units[i] + units[i + 1]);
  }
  return most;
}

void put_gathered_units(const Config& config, const StageLayout& layout, StageMemory& stage) {
  if (shard_counts(config).weights <= 1 || layout.units.empty()) return;
  const auto bytes = static_cast<double>(weight_bytes(config.train));
  put(stage, MemoryTag::kGatheredUnits, bytes * gathered_elements(layout.units));
}

// Gradients between backward and their reduction. Weight-sharding engines reduce a whole unit; the
// others fill one bucket while the one before is on the wire.
void put_buckets(const Config& config, const StageLayout& layout, StageMemory& stage) {
  if (config.parallel.dp <= 1) return;
  const auto element = static_cast<double>(gradient_bytes(config.train));
  if (shard_counts(config).weights > 1 && !layout.units.empty()) {
    put(stage, MemoryTag::kCommunication,
        element * *std::max_element(layout.units.begin(), layout.units.end()));
    return;
  }
  put(stage, MemoryTag::kCommunication,
      std::min(2.0 * static_cast<double>(config.train.bucket_bytes), element * layout.parameters));
}

void put_gpu_activations(const Config& config, const StageLayout& layout, StageMemory& stage) {
  const ActivationBytes bytes = gpu_activations(config);
  const double in_flight = in_flight_micro_batches(config, layout.stage);
  double activations = layer_activation_bytes(bytes, in_flight * static_cast<double>(layout.layers),
                                              config.train.recompute);
  const bool pipelined = config.parallel.pp > 1;
  const std::int64_t m = micro_batches_of(config);
  const bool all_forward_first = pipelined && config.parallel.schedule == Schedule::kGPipe;
  if (layout.first) {
    const std::int64_t waiting = all_forward_first ? m : std::min(m, config.parallel.pp);
    activations += bytes.embedding * static_cast<double>(pipelined ? waiting : 1);
  }
  if (layout.last) {
    const auto waiting = static_cast<double>(all_forward_first ? m : 1);
    activations += bytes.head * waiting;
    put(stage, MemoryTag::kLogits, bytes.logits * waiting);
  }
  put(stage, MemoryTag::kActivations, activations);
}

void put_batch(const Config& config, StageMemory& stage) {
  // Token and target ids, int32.
  const std::int64_t tokens = config.train.micro_batch_size * config.model.sequence;
  put(stage, MemoryTag::kData, 2.0 * 4.0 * static_cast<double>(tokens));
}

MemoryTag tag_of(ActivationSpec::Kind kind) {
  switch (kind) {
    case ActivationSpec::Kind::kActivation:
      return MemoryTag::kActivations;
    case ActivationSpec::Kind::kActivationGradient:
      return MemoryTag::kActivationGradients;
    case ActivationSpec::Kind::kLogits:
      return MemoryTag::kLogits;
    case ActivationSpec::Kind::kWorkspace:
      return MemoryTag::kWorkspace;
  }
  return MemoryTag::kWorkspace;
}

// A ring all_reduce receives one chunk at a time into its communicator's scratch. The trainer has
// two: "dp" for gradient buckets, and "control" for two doubles a step and, at the end of the run,
// the step times.
double ring_scratch_bytes(const Config& config, const StageLayout& layout) {
  const auto ranks = static_cast<std::size_t>(config.parallel.dp);
  if (ranks <= 1) return 0;
  std::int64_t largest = 0;
  for (const Bucket& bucket : gradient_buckets(layout.tensors, config.train.bucket_bytes, 4)) {
    largest = std::max(largest, bucket.count);
  }
  const auto doubles = static_cast<std::size_t>(std::max<std::int64_t>(2, config.train.steps));
  const std::size_t gradients =
      4 * collectives::chunk_of(static_cast<std::size_t>(largest), ranks, 0).count;
  const std::size_t control = 8 * collectives::chunk_of(doubles, ranks, 0).count;
  return static_cast<double>(gradients + control);
}

void put_cpu_engine(const Config& config, const StageLayout& layout, StageMemory& stage) {
  for (const ActivationSpec& spec : cpu_activations(config.model, config.train.micro_batch_size)) {
    put(stage, tag_of(spec.kind), 4.0 * static_cast<double>(spec.elements));
  }
  put(stage, MemoryTag::kCommunication, ring_scratch_bytes(config, layout));
  put_batch(config, stage);
}

StageMemory plan_stage(const Config& config, const StageLayout& layout) {
  StageMemory stage;
  stage.stage = layout.stage;
  put_state(config, layout, stage);
  if (runs_on_cpu_engine(config)) {
    put_cpu_engine(config, layout, stage);
    return stage;
  }
  put_gathered_units(config, layout, stage);
  put_buckets(config, layout, stage);
  if (config.model.family == "gpt") {
    put_gpu_activations(config, layout, stage);
    put_batch(config, stage);
  }
  return stage;
}

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
  StateBytes bytes;
  bytes.weights = static_cast<double>(weight_bytes(train));
  bytes.gradients = static_cast<double>(gradient_bytes(train));
  bytes.master = train.precision == Precision::kFloat32 ? 0 : 4;
  bytes.moments = 8;
  bytes.ema = train.ema ? 4 : 0;
  return bytes;
}

std::int64_t hsdp_shard_ranks(const Config& config) {
  const ParallelSpec& parallel = config.parallel;
  return parallel.hsdp_shard > 0
             ? std::min(parallel.hsdp_shard, std::max<std::int64_t>(parallel.dp, 1))
             : default_hsdp_shard(config.cluster, parallel);
}

ShardCounts shard_counts(const Config& config) {
  const std::int64_t dp = std::max<std::int64_t>(config.parallel.dp, 1);
  switch (config.parallel.engine) {
    case Engine::kDdp:
      return {1, 1, 1};
    case Engine::kZero1:
      return {1, 1, dp};
    case Engine::kZero2:
      return {1, dp, dp};
    case Engine::kZero3:
      return {dp, dp, dp};
    case Engine::kHsdp: {
      const std::int64_t shard = hsdp_shard_ranks(config);
      return {shard, shard, shard};
    }
  }
  return {1, 1, 1};
}

bool runs_on_cpu_engine(const Config& config) {
  const ParallelSpec& parallel = config.parallel;
  const bool cpu = config.cluster.preset == "cpu-host" ||
                   (config.cluster.preset.empty() && config.cluster.peak_flops <= 0);
  return cpu && config.model.family == "gpt" && config.train.precision == Precision::kFloat32 &&
         parallel.engine == Engine::kDdp && parallel.tp == 1 && parallel.pp == 1 &&
         config.train.recompute == Recompute::kNone && !config.train.ema;
}

MemoryPlan plan_memory(const Config& config) {
  MemoryPlan plan;
  plan.limit_bytes = config.cluster.memory_bytes;
  for (const StageLayout& layout : stage_layouts(config)) {
    plan.stages.push_back(plan_stage(config, layout));
    plan.worst_total_bytes = std::max(plan.worst_total_bytes, plan.stages.back().total_bytes);
  }
  plan.fits = plan.limit_bytes <= 0 || plan.worst_total_bytes <= plan.limit_bytes;
  return plan;
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
  if (config.model.family != "gpt") {
    notes.push_back(
        note("NQD1303", Severity::kNote, "model",
             "only the parameter count of this model is known: the plan holds state memory and "
             "gradient traffic, but no activations and no step time",
             "leave room for activations, or describe the model with family: gpt"));
  }
  if (plan.limit_bytes <= 0) {
    notes.push_back(note("NQD1304", Severity::kNote, "cluster.memory_bytes",
                         "the memory of a device is not given, so that nothing can be said about "
                         "whether the plan fits",
                         "set cluster.memory_bytes, or name a cluster preset"));
  } else if (plan.fits && !runs_on_cpu_engine(config) &&
             plan.worst_total_bytes > (1 - kHeadroomFraction) * plan.limit_bytes) {
    notes.push_back(note("NQD1307", Severity::kWarning, "cluster.memory_bytes",
                         "fits with only " +
                             format_bytes(plan.limit_bytes - plan.worst_total_bytes) +
                             " to spare, which the device context (0.5 to 1 GB) and allocator "
                             "fragmentation may take",
                         "leave 10 % of the device's memory free"));
  }
  return notes;
}

}  // namespace nqd::planner

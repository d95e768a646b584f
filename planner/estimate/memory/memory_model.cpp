#include "planner/estimate/memory_model.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "planner/estimate/memory/stage_bytes.h"
#include "planner/layout/layout.h"
#include "planner/mesh/fabric.h"
#include "planner/plan/pipeline.h"
#include "planner/reference/reference_plan.h"
#include "planner/schedule/closed_form.h"

namespace nqd::planner {
namespace {

// What decides the bytes of a block.
struct BlockKey {
  std::int32_t tp = 1;
  std::int32_t cp = 1;
  std::int32_t ep = 1;
  std::int32_t micro_batch_size = 1;
  Recompute recompute = Recompute::kNone;
  bool sequence_parallel = false;
  bool operator==(const BlockKey&) const = default;
};

// What decides the layers of a stage.
struct PlacementKey {
  std::int32_t stages = 1;
  std::int32_t chunks = 1;  // of a stage
  bool folded = false;      // zb-v
  bool given = false;       // the base's pipeline_split, and not an even one
  bool operator==(const PlacementKey&) const = default;
};

std::size_t mix(std::size_t seed, std::uint64_t value) {
  return (seed ^ value) * 0x9E3779B97F4A7C15U;
}
struct KeyHash {
  std::size_t operator()(const BlockKey& key) const {
    std::size_t seed = mix(0, static_cast<std::uint32_t>(key.tp));
    seed = mix(seed, static_cast<std::uint32_t>(key.cp));
    seed = mix(seed, static_cast<std::uint32_t>(key.ep));
    seed = mix(seed, static_cast<std::uint32_t>(key.micro_batch_size));
    const auto choices =
        2 * static_cast<std::uint64_t>(key.recompute) + (key.sequence_parallel ? 1 : 0);
    return mix(seed, choices);
  }
  std::size_t operator()(const PlacementKey& key) const {
    return mix(mix(static_cast<std::uint32_t>(key.stages), static_cast<std::uint32_t>(key.chunks)),
               (key.folded ? 1U : 0U) + (key.given ? 2U : 0U));
  }
};

// Consecutive stages that hold the same.
struct StageRun {
  std::int64_t first = 0;
  std::int64_t count = 1;
  StageShare share;
};

}  // namespace

namespace {

// What the plan of nqd's own engine depends on.
using EngineKey = std::tuple<std::int32_t, std::int32_t, std::int32_t, std::int32_t, std::int32_t,
                             Engine, Schedule, Recompute, bool>;

}  // namespace

struct MemoryModel::Impl {
  explicit Impl(const Config& config) : base(config), shape(model_shape(base.model, base.train)) {
    for (const BlockRun& run : shape.runs) {
      const BlockShape& block = shape.kinds[static_cast<std::size_t>(run.kind)];
      if (block.name == "dense") dense_kind = run.kind;
      if (block.name == "moe") moe_kind = run.kind;
    }
    if (is_transformer(base.model)) {
      dense_layers = unit_count(base.model, UnitKind::kDense);
      moe_layers = unit_count(base.model, UnitKind::kMoe);
    }
    Candidate single;
    cpu_ranks = runs_on_reference_engine(with_candidate(base, single));
    runtime = runtime_memory(base);
    state = state_bytes(base.train);
  }

  const std::vector<BlockBytes>& blocks_of(const Candidate& candidate);
  const std::vector<StageRun>& placement_of(const Candidate& candidate);
  StageContext context_of(const Candidate& candidate);
  StageQueue queue_of(const ScheduleSpec& spec, std::int64_t stage) const;
  // nqd's own engine has a plan of its own, exact to the byte.
  bool on_cpu_engine(const Candidate& candidate) const {
    return cpu_ranks && runs_on_reference_engine(with_candidate(base, candidate));
  }
  WorstStage worst_of_cpu_engine(const Candidate& candidate);

  Config base;
  ModelShape shape;
  std::int64_t dense_kind = -1;
  std::int64_t moe_kind = -1;
  std::int64_t dense_layers = 0;
  std::int64_t moe_layers = 0;
  RuntimeMemory runtime;
  StateBytes state;
  bool cpu_ranks = false;
  std::map<EngineKey, WorstStage> cpu_engine;
  std::unordered_map<BlockKey, std::vector<BlockBytes>, KeyHash> blocks;
  std::unordered_map<PlacementKey, std::vector<StageRun>, KeyHash> placements;
};

namespace {

ScheduleSpec spec_of(const Candidate& candidate) {
  ParallelSpec parallel;
  parallel.schedule = candidate.schedule;
  parallel.vpp = candidate.vpp;
  return {candidate.schedule, std::max<std::int64_t>(candidate.pp, 1),
          std::max<std::int64_t>(candidate.micro_batches, 1), virtual_stages(parallel)};
}

}  // namespace

const std::vector<BlockBytes>& MemoryModel::Impl::blocks_of(const Candidate& candidate) {
  const BlockKey key{candidate.tp,        candidate.cp,
                     candidate.ep,        candidate.micro_batch_size,
                     candidate.recompute, candidate.sequence_parallel};
  const auto found = blocks.find(key);
  if (found != blocks.end()) return found->second;
  return blocks.emplace(key, block_bytes(base, shape, candidate)).first->second;
}

const std::vector<StageRun>& MemoryModel::Impl::placement_of(const Candidate& candidate) {
  const ParallelSpec& mesh = base.parallel;
  ScheduleSpec spec = spec_of(candidate);
  std::span<const std::int64_t> split;
  if (candidate.pp == mesh.pp && candidate.vpp == mesh.vpp) split = mesh.pipeline_split;
  const auto chunks = static_cast<std::int64_t>(split.size());
  if (chunks > chunk_count(spec)) spec.virtual_stages = chunks / spec.stages;
  const PlacementKey key{static_cast<std::int32_t>(spec.stages),
                         static_cast<std::int32_t>(spec.virtual_stages),
                         spec.schedule == Schedule::kZbV, !split.empty()};
  const auto found = placements.find(key);
  if (found != placements.end()) return found->second;
  std::vector<StageRun> runs;
  for (std::int64_t stage = 0; stage < spec.stages; ++stage) {
    const StageShare share = stage_share(spec, split, dense_layers, moe_layers, stage);
    if (!runs.empty() && runs.back().share == share) {
      ++runs.back().count;
    } else {
      runs.push_back({stage, 1, share});
    }
  }
  return placements.emplace(key, std::move(runs)).first->second;
}

StageContext MemoryModel::Impl::context_of(const Candidate& candidate) {
  StageContext context;
  context.base = &base;
  context.shape = &shape;
  context.blocks = &blocks_of(candidate);
  context.candidate = candidate;
  context.runtime = runtime;
  context.state = state;
  context.shards = shard_counts(base, candidate);
  context.expert_shards = expert_shard_counts(base, candidate);
  context.dense_kind = dense_kind;
  context.moe_kind = moe_kind;
  const bool embeds_again = shape.tied_elements > 0 || base.model.mtp_layers > 0;
  if (embeds_again && shape.embedding >= 0) {
    ParameterCounts table;
    const ParameterCounts& embedding =
        shape.kinds[static_cast<std::size_t>(shape.embedding)].parameters;
    table.vocabulary = embedding.vocabulary;
    table.vocabulary_rows = embedding.vocabulary_rows;
    context.embedding_copy = table.dense_of_rank(candidate.tp);
  }
  return context;
}

StageQueue MemoryModel::Impl::queue_of(const ScheduleSpec& spec, std::int64_t stage) const {
  if (spec.stages <= 1) return {};
  const auto waiting = static_cast<double>(in_flight(spec, stage).total());
  const auto m = static_cast<double>(spec.micro_batches);
  StageQueue queue;
  queue.in_flight = waiting / static_cast<double>(spec.virtual_stages);
  queue.chunks = waiting;
  queue.all_chunks = m * static_cast<double>(spec.virtual_stages);
  queue.embeddings = std::min(m, waiting);
  queue.losses = spec.schedule == Schedule::kGPipe ? m : 1;
  return queue;
}

MemoryModel::MemoryModel(const Config& base) : impl_(std::make_unique<Impl>(base)) {}
MemoryModel::~MemoryModel() = default;
MemoryModel::MemoryModel(MemoryModel&&) noexcept = default;
MemoryModel& MemoryModel::operator=(MemoryModel&&) noexcept = default;

WorstStage MemoryModel::Impl::worst_of_cpu_engine(const Candidate& candidate) {
  const EngineKey key{candidate.dp,
                      candidate.tp,
                      candidate.pp,
                      candidate.vpp,
                      candidate.micro_batch_size,
                      candidate.engine,
                      candidate.schedule,
                      candidate.recompute,
                      candidate.sequence_parallel};
  const auto found = cpu_engine.find(key);
  if (found != cpu_engine.end()) return found->second;
  const StageMemory stage = worst_stage(plan_memory(with_candidate(base, candidate)));
  // Its ranks have no device and no caching allocator.
  const WorstStage worst{stage.total_bytes, stage.persistent_bytes, stage.total_bytes,
                         stage.total_bytes, static_cast<std::int32_t>(stage.stage)};
  return cpu_engine.emplace(key, worst).first->second;
}

namespace {

WorstStage worst_of(const Categories& categories, const StageTotals& totals, std::int64_t stage) {
  WorstStage worst;
  worst.total_bytes = totals.total();
  worst.persistent_bytes = totals.persistent;
  worst.reserved_bytes =
      worst.total_bytes - categories[static_cast<std::size_t>(MemoryTag::kDeviceContext)];
  worst.allocated_bytes =
      worst.reserved_bytes - categories[static_cast<std::size_t>(MemoryTag::kAllocatorReserve)];
  worst.stage = static_cast<std::int32_t>(stage);
  return worst;
}

}  // namespace

WorstStage MemoryModel::worst(const Candidate& candidate) {
  if (impl_->on_cpu_engine(candidate)) return impl_->worst_of_cpu_engine(candidate);
  const StageContext context = impl_->context_of(candidate);
  const ScheduleSpec spec = spec_of(candidate);
  // Earlier stages of a run have at least as many micro-batches in flight, save on zb-v's.
  const bool falling = spec.schedule != Schedule::kZbV;
  WorstStage worst;
  worst.total_bytes = -1;
  for (const StageRun& run : impl_->placement_of(candidate)) {
    const std::int64_t end = run.first + (falling ? 1 : run.count);
    for (std::int64_t stage = run.first; stage < end; ++stage) {
      const Categories categories = stage_bytes(context, run.share, impl_->queue_of(spec, stage));
      const StageTotals totals = totals_of(categories);
      if (totals.total() > worst.total_bytes) worst = worst_of(categories, totals, stage);
    }
  }
  return worst;
}

MemoryPlan MemoryModel::stages(const Candidate& candidate) {
  if (impl_->on_cpu_engine(candidate)) return plan_memory(with_candidate(impl_->base, candidate));
  const StageContext context = impl_->context_of(candidate);
  const ScheduleSpec spec = spec_of(candidate);
  MemoryPlan plan;
  plan.limit_bytes = impl_->base.cluster.memory_bytes;
  for (const StageRun& run : impl_->placement_of(candidate)) {
    for (std::int64_t stage = run.first; stage < run.first + run.count; ++stage) {
      const Categories categories = stage_bytes(context, run.share, impl_->queue_of(spec, stage));
      const StageTotals totals = totals_of(categories);
      StageMemory memory{stage, {}, totals.persistent, totals.transient, totals.total()};
      for (std::size_t i = 0; i < categories.size(); ++i) {
        if (categories[i] <= 0) continue;
        memory.categories[std::string(name(static_cast<MemoryTag>(i)))] = categories[i];
      }
      plan.worst_total_bytes = std::max(plan.worst_total_bytes, memory.total_bytes);
      plan.stages.push_back(std::move(memory));
    }
  }
  plan.fits = plan.limit_bytes <= 0 || plan.worst_total_bytes <= plan.limit_bytes;
  return plan;
}

}  // namespace nqd::planner

#include "tests/engine/device/small_run.h"

#include <cstddef>
#include <mutex>
#include <span>
#include <utility>

#include "collectives/world.h"
#include "engine/audit.h"
#include "engine/checkpoint/state.h"
#include "engine/parallel/store/export.h"
#include "engine/train/rank_state.h"
#include "engine/train/step_totals.h"
#include "planner/layout/state_shape.h"

namespace nqd::tests {

using collectives::Communicator;
using planner::Config;
using namespace engine;

namespace {

// Of one micro-batch, from the place of its first sequence.
struct Inputs {
  std::vector<std::byte> inputs;
  std::vector<std::int32_t> targets;
};
Inputs inputs_at(const Config& config, std::int64_t first) {
  const planner::SampleShape sample = planner::sample_shape(config.model);
  const bool features = config.model.input_features > 0;
  const std::int64_t limit = features ? config.model.output_features : config.model.vocab;
  Inputs made;
  for (std::int64_t i = 0; i < config.train.micro_batch_size * sample.inputs; ++i) {
    const auto number = static_cast<std::int32_t>((first * sample.inputs + i) * 7919 % 53);
    const float feature = static_cast<float>(number) / 26 - 1;
    const void* const from =
        features ? static_cast<const void*>(&feature) : static_cast<const void*>(&number);
    const auto* const bytes = static_cast<const std::byte*>(from);
    made.inputs.insert(made.inputs.end(), bytes, bytes + 4);
  }
  for (std::int64_t i = 0; i < config.train.micro_batch_size * sample.targets; ++i) {
    const std::int64_t target = (first * sample.targets + i) * 104729 % (limit + 1) - 1;
    made.targets.push_back(static_cast<std::int32_t>(target));
  }
  return made;
}

StepTotals step(RankState& state, const MeshGroups& groups, const Config& config, std::int64_t at) {
  const planner::StateShape& shape = state.store().shape();
  Inputs now;
  state.store().measure_leaves(at == kMeasuredStep);
  state.store().begin_step();
  state.runner().train(at, at < kScaledStep ? 1.0F : 0.5F, [&](std::int64_t micro_batch) {
    const std::int64_t first = config.train.micro_batch_size *
                               planner::leaf_index(shape.gradient_shards(), shape.micro_batches,
                                                   groups.place.dp, micro_batch);
    now = inputs_at(config, at * config.train.global_batch_size + first);
    return Batch{now.inputs, now.targets, first};
  });
  state.store().finish_step();
  const ExactSum squares = state.store().squared_gradients();
  const LossSum loss = state.runner().loss();
  RankTotals mine;
  if (groups.place.tp == 0) {
    mine.loss = loss.loss;
    mine.targets = loss.targets;
  }
  mine.squared_gradients = squares;
  mine.squared_leaves = state.store().squared_leaves();
  return add_up(*groups.control, mine);
}

void save(RankState& state, SmallRun& mine) {
  std::vector<float> room;
  for (const ShardPart& part : host_parts(state.store(), room)) {
    for (const std::span<const float>& values : part.values) {
      mine.saved.insert(mine.saved.end(), values.begin(), values.end());
    }
  }
}

double evaluate(RankState& state, const Config& config) {
  Inputs now;
  const LossSum loss = state.runner().evaluate(2, [&](std::int64_t micro_batch) {
    now = inputs_at(config, 1000 + micro_batch * config.train.micro_batch_size);
    return Batch{now.inputs, now.targets, 0};
  });
  return loss.loss.value();
}

// What comes between steps.
void go_on(RankState& state, const Config& config, std::int64_t at, const StepTotals& totals,
           SmallRun& mine) {
  if (at != kSkippedStep) {
    return state.update(at, 1e-2, 1 / static_cast<double>(totals.targets));
  }
  state.skip_update();
  mine.losses.push_back(evaluate(state, config));
  save(state, mine);
  state.store().initialize(
      [](const planner::TensorSpec&, std::int64_t begin, std::span<float> out) {
        for (float& value : out) value = static_cast<float>(begin++ % 7) / 16 - 0.2F;
      });
}

// Persistent and transient bytes of a rank, and what it sent to groups in the steps; what a trainer
// tells all ranks beside them is not told here.
bool has_planned_bytes(const Config& config, const MeshGroups& groups, std::int64_t rank,
                       const MemoryLedger& ledger, std::int64_t steps, const SentCounts& sent) {
  bool all = true;
  for (const AuditRow& row : memory_rows(config, rank, ledger, groups.backend)) {
    all = all && row.ok;
  }
  const std::vector<StepSpan> spans = {{0, steps, false}};
  for (const AuditRow& row : traffic_rows(config, rank, spans, sent)) {
    all = all && (row.ok || row.category == "control.all_reduce");
  }
  return all;
}

SmallRun run_on(RankState& state, Communicator& world, const MeshGroups& groups,
                const Config& config, std::int64_t steps, const SmallRunOptions& options) {
  if (!options.repeats) state.run_plainly("for the comparison");
  SmallRun mine;
  for (std::int64_t at = 1; at <= steps; ++at) {
    if (options.before_step) options.before_step(world.rank(), at);
    const StepTotals totals = step(state, groups, config, at);
    mine.losses.push_back(totals.loss_sum);
    mine.norms.push_back(totals.squared_gradients + totals.squared_leaves);
    go_on(state, config, at, totals, mine);
  }
  mine.repeated = state.runner().repeated_steps();
  mine.weights = weights_sha256(state.store(), model_owners(config), world);
  save(state, mine);
  return mine;
}

SmallRun run_rank(Communicator& world, const Config& config, std::int64_t steps,
                  const SmallRunOptions& options) {
  MemoryLedger ledger;
  RankDevice joined;
  MeshGroups groups = join_mesh(world, config, ledger);
  if (options.join) joined = options.join(world, groups);
  RankState state(config, groups, ledger, Mutant::kNone, {}, nullptr, std::move(joined.device));
  try {
    SmallRun mine = run_on(state, world, groups, config, steps, options);
    mine.has_planned_bytes = has_planned_bytes(config, groups, world.rank(), ledger, steps,
                                               count_sent(groups, state.runner()));
    if (joined.nccl) mine.stood_s = joined.nccl->take_stood().all_s;
    return mine;
  } catch (const Error& error) {
    if (options.on_failure) options.on_failure(world.rank(), error);
    if (joined.nccl) joined.nccl->abandon();
    if (joined.drain) joined.drain();
    throw;
  }
}

}  // namespace

Config small_gpt() {
  Config c;
  c.model.family = "gpt";
  c.model.layers = 4;
  c.model.hidden = 16;
  c.model.heads = c.model.kv_heads = 4;
  c.model.head_dim = 4;
  c.model.ffn_hidden = 24;
  c.model.vocab = 61;
  c.model.sequence = 12;
  c.train.micro_batch_size = 2;
  c.train.global_batch_size = 8;
  c.train.precision = planner::Precision::kFloat32;
  c.train.gradient_precision = planner::Precision::kFloat32;
  return c;
}

Config small_llama() {
  Config c = small_gpt();
  c.model.family = "llama";
  c.model.kv_heads = 2;
  c.model.tied_head = false;
  c.model.gated_mlp = true;
  c.model.bias = c.model.qkv_bias = false;
  c.model.norm = planner::Norm::kRmsNorm;
  c.model.positions = planner::Positions::kRotary;
  return c;
}

Config small_encoder() {
  Config c = small_gpt();
  c.model.family = "timeseries";
  c.model.vocab = 0;
  c.model.input_features = 3;
  c.model.output_features = 5;
  c.model.tied_head = false;
  c.model.causal = false;
  return c;
}

planner::ParallelSpec mesh(planner::Engine engine, std::int64_t dp, std::int64_t tp,
                           std::int64_t pp) {
  planner::ParallelSpec parallel;
  parallel.engine = engine;
  parallel.dp = dp;
  parallel.tp = tp;
  parallel.pp = pp;
  return parallel;
}

planner::Config on_mesh(planner::Config config, const planner::ParallelSpec& mesh) {
  config.parallel = mesh;
  config.cluster.preset = "cpu-host";
  config.cluster.gpus_per_node = mesh.ranks();
  return config;
}

bool SmallRun::has_same_bits(const SmallRun& other) const {
  return losses == other.losses && norms == other.norms && weights == other.weights &&
         saved == other.saved;
}

SmallRun small_run(const Config& config, std::int64_t steps, const SmallRunOptions& options) {
  SmallRun found;
  bool as_planned = true;
  std::mutex mutex;
  collectives::run_threads(static_cast<int>(config.parallel.ranks()), {}, [&](Communicator& world) {
    SmallRun mine = run_rank(world, config, steps, options);
    const std::lock_guard lock(mutex);
    as_planned = as_planned && mine.has_planned_bytes;
    if (world.rank() == 0) found = std::move(mine);
  });
  found.has_planned_bytes = as_planned;
  return found;
}

SmallRun small_run(const Config& config, std::int64_t steps,
                   const std::function<std::unique_ptr<Device>()>& make_device, bool repeats) {
  SmallRunOptions options;
  options.repeats = repeats;
  if (make_device) {
    options.join = [&](Communicator&, MeshGroups&) {
      RankDevice joined;
      joined.device = make_device();
      return joined;
    };
  }
  return small_run(config, steps, options);
}

}  // namespace nqd::tests

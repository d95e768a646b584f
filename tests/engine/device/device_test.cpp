// That nothing above the device line depends on when operations run.
#include <doctest/doctest.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "collectives/world.h"
#include "engine/checkpoint/state.h"
#include "engine/parallel/store/export.h"
#include "engine/train/rank_state.h"
#include "engine/train/step_totals.h"
#include "planner/layout/state_shape.h"
#include "tests/engine/device/late_device.h"

namespace nqd::engine {
namespace {

using collectives::Communicator;
using planner::Config;

constexpr std::int64_t kSteps = 2;

// Four layers, biases, learned positions, a tied head; four micro-batches of two sequences.
Config gpt() {
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

Config llama() {
  Config c = gpt();
  c.model.family = "llama";
  c.model.kv_heads = 2;
  c.model.tied_head = false;
  c.model.gated_mlp = true;
  c.model.bias = c.model.qkv_bias = false;
  c.model.norm = planner::Norm::kRmsNorm;
  c.model.positions = planner::Positions::kRotary;
  return c;
}

Config encoder() {
  Config c = gpt();
  c.model.family = "timeseries";
  c.model.vocab = 0;
  c.model.input_features = 3;
  c.model.output_features = 5;
  c.model.tied_head = false;
  c.model.causal = false;
  return c;
}

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

struct Found {
  std::vector<double> losses;
  std::vector<double> norms;
  std::string weights;
  std::vector<float> saved;  // by rank 0
};

StepTotals step(RankState& state, const MeshGroups& groups, const Config& config, std::int64_t at) {
  const planner::StateShape& shape = state.store().shape();
  Inputs now;
  state.store().begin_step();
  const LossSum loss = state.runner().train(at, 1.0F, [&](std::int64_t micro_batch) {
    const std::int64_t first = config.train.micro_batch_size *
                               planner::leaf_index(shape.gradient_shards(), shape.micro_batches,
                                                   groups.place.dp, micro_batch);
    now = inputs_at(config, at * config.train.global_batch_size + first);
    return Batch{now.inputs, now.targets, first};
  });
  state.store().finish_step();
  RankTotals mine;
  if (groups.place.tp == 0) {
    mine.loss = loss.loss;
    mine.targets = loss.targets;
  }
  mine.squared_gradients = state.store().squared_gradients();
  return add_up(*groups.control, mine);
}

std::vector<float> values_of(const std::vector<ShardPart>& parts) {
  std::vector<float> all;
  for (const ShardPart& part : parts) {
    for (const std::span<const float>& values : part.values) {
      all.insert(all.end(), values.begin(), values.end());
    }
  }
  return all;
}

Found run(const Config& config, bool late) {
  Found found;
  std::mutex mutex;
  collectives::run_threads(static_cast<int>(config.parallel.ranks()), {}, [&](Communicator& world) {
    MemoryLedger ledger;
    MeshGroups groups = join_mesh(world, config, ledger);
    std::unique_ptr<Device> device;
    if (late) device = std::make_unique<tests::LateDevice>();
    RankState state(config, groups, ledger, Mutant::kNone, {}, nullptr, std::move(device));
    Found mine;
    for (std::int64_t at = 1; at <= kSteps; ++at) {
      const StepTotals totals = step(state, groups, config, at);
      mine.losses.push_back(totals.loss_sum);
      mine.norms.push_back(totals.squared_gradients);
      state.update(at, 1e-2, 1 / static_cast<double>(totals.targets));
    }
    mine.weights = weights_sha256(state.store(), model_owners(config), world);
    std::vector<float> room;
    mine.saved = values_of(host_parts(state.store(), room));
    const std::lock_guard lock(mutex);
    if (world.rank() == 0) found = std::move(mine);
  });
  return found;
}

void check_late(Config config, const planner::ParallelSpec& mesh) {
  config.parallel = mesh;
  config.cluster.preset = "cpu-host";
  config.cluster.gpus_per_node = mesh.ranks();
  INFO("dp ", mesh.dp, ", tp ", mesh.tp, ", pp ", mesh.pp);
  const Found expected = run(config, false);
  const Found found = run(config, true);
  REQUIRE(expected.losses.size() == kSteps);
  CHECK(expected.losses[0] > 0);
  CHECK(expected.norms[0] > 0);
  CHECK(found.losses == expected.losses);
  CHECK(found.norms == expected.norms);
  CHECK(found.weights == expected.weights);
  CHECK(found.saved == expected.saved);
  CHECK_FALSE(found.saved.empty());
}

planner::ParallelSpec mesh(planner::Engine engine, std::int64_t dp, std::int64_t tp = 1,
                           std::int64_t pp = 1) {
  planner::ParallelSpec parallel;
  parallel.engine = engine;
  parallel.dp = dp;
  parallel.tp = tp;
  parallel.pp = pp;
  return parallel;
}

TEST_CASE("one rank's step is the same whenever its operations run") {
  const planner::ParallelSpec alone = mesh(planner::Engine::kDdp, 1);
  Config config = gpt();
  config.train.dropout = true;
  config.train.ema = true;
  check_late(config, alone);
  config = llama();
  config.train.precision = planner::Precision::kBFloat16;
  config.train.recompute = planner::Recompute::kSelective;
  check_late(config, alone);
  config = encoder();
  config.numerics.mode = collectives::Numerics::kFast;
  config.train.optimizer.kind = planner::OptimizerKind::kSgd;
  check_late(config, alone);
}

TEST_CASE("messages carry what the operations before them left") {
  check_late(gpt(), mesh(planner::Engine::kDdp, 2));
  check_late(gpt(), mesh(planner::Engine::kZero1, 2));
  check_late(llama(), mesh(planner::Engine::kZero2, 2));
  Config config = gpt();
  config.train.precision = planner::Precision::kFloat16;
  check_late(config, mesh(planner::Engine::kZero3, 2));
  check_late(llama(), mesh(planner::Engine::kDdp, 1, 2));
  planner::ParallelSpec split = mesh(planner::Engine::kDdp, 1, 2);
  split.sequence_parallel = true;
  config = gpt();
  config.train.dropout = true;
  check_late(config, split);
  check_late(gpt(), mesh(planner::Engine::kDdp, 1, 1, 2));
}

}  // namespace
}  // namespace nqd::engine

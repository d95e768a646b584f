#include "planner/plan/memory.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "base/units.h"
#include "planner/estimate/memory/block_bytes.h"
#include "planner/layout/activation_buffers.h"
#include "planner/layout/buckets.h"
#include "planner/mesh/stages.h"
#include "planner/plan/pipeline.h"
#include "planner/planner.h"
#include "planner/reference/reference_plan.h"
#include "tests/planner/configs.h"

namespace nqd::planner {
namespace {

double rounded(double value, int digits) {
  const double scale = std::pow(10.0, digits);
  return std::round(value * scale) / scale;
}

double category(const Config& config, const std::string& name, std::size_t stage = 0) {
  const auto categories = plan_memory(config).stages.at(stage).categories;
  const auto found = categories.find(name);
  return found == categories.end() ? 0 : found->second;
}

TEST_CASE("golden: 8e9 parameters take 16 + 16 + 32 + 64 GB") {
  const Config config = state_config(8e9, Engine::kDdp, 1);
  CHECK(category(config, "weights") == 16e9);
  CHECK(category(config, "gradients") == 16e9);
  CHECK(category(config, "master") == 32e9);
  CHECK(category(config, "moments") == 64e9);
  CHECK(plan_memory(config).worst_total_bytes == 128e9);
}

// State of a rank, as a plan gives it.
double state(double parameters, Engine engine, std::int64_t ranks) {
  return make_plan(state_config(parameters, engine, ranks)).memory.stages.at(0).persistent_bytes;
}

TEST_CASE("golden: 8e9 parameters on four ranks") {
  CHECK(state(8e9, Engine::kDdp, 4) == 128e9);
  CHECK(state(8e9, Engine::kZero1, 4) == 56e9);
  CHECK(state(8e9, Engine::kZero2, 4) == 44e9);
  CHECK(state(8e9, Engine::kZero3, 4) == 32e9);
}

TEST_CASE("golden: 70e9 parameters on 64 ranks, and 140 GB of EMA more") {
  CHECK(state(70e9, Engine::kDdp, 64) / kGB == 1120.0);
  CHECK(rounded(state(70e9, Engine::kZero1, 64) / kGB, 2) == 293.13);
  CHECK(rounded(state(70e9, Engine::kZero2, 64) / kGB, 2) == 155.31);
  CHECK(state(70e9, Engine::kZero3, 64) / kGB == 17.5);

  Config config = state_config(70e9, Engine::kDdp, 1);
  CHECK(category(config, "weights") == 140e9);
  CHECK(category(config, "gradients") == 140e9);
  CHECK(category(config, "master") == 280e9);
  CHECK(category(config, "moments") == 560e9);
  config.train.ema = true;
  CHECK(category(config, "ema") == 280e9);
}

TEST_CASE("golden: 175e9, 405e9 and 7e9 parameters") {
  CHECK(state(175e9, Engine::kDdp, 8) == 2800e9);
  CHECK(min_ranks_for_state(175e9, 16, 80e9) == 35);
  // 35 ranks are four nodes of eight and three more: no mesh, but the arithmetic is the same.
  const MemoryPlan fewest = plan_memory(state_config(175e9, Engine::kZero3, 35));
  CHECK(80e9 - fewest.stages.at(0).persistent_bytes == doctest::Approx(0));
  CHECK(80e9 - state(175e9, Engine::kZero3, 40) == doctest::Approx(10e9));
  CHECK(80e9 - state(175e9, Engine::kZero3, 64) == doctest::Approx(36.25e9));
  CHECK(state(405e9, Engine::kDdp, 1) == 6480e9);
  CHECK(rounded(state(7e9, Engine::kZero3, 8) / kGiB, 2) == 13.04);
}

TEST_CASE("state of every engine: 16Φ, 4Φ + 12Φ/N, 2Φ + 14Φ/N, 16Φ/N") {
  const double phi = 64e9;
  for (std::int64_t ranks : {1, 2, 4, 8, 64}) {
    const auto n = static_cast<double>(ranks);
    CHECK(state(phi, Engine::kDdp, ranks) == 16 * phi);
    CHECK(state(phi, Engine::kZero1, ranks) == 4 * phi + 12 * phi / n);
    CHECK(state(phi, Engine::kZero2, ranks) == 2 * phi + 14 * phi / n);
    CHECK(state(phi, Engine::kZero3, ranks) == 16 * phi / n);
  }
  CHECK(state(phi, Engine::kHsdp, 64) == 16 * phi / 8);
}

TEST_CASE("an hsdp shard group lies inside a node, beside tp and pp too") {
  Config config = state_config(1e9, Engine::kHsdp, 24);
  CHECK(shard_counts(config).weights == 8);
  config.parallel.pp = 2;
  config.parallel.dp = 12;
  CHECK(shard_counts(config).weights == 4);
  config.parallel.tp = 2;
  config.parallel.dp = 6;
  CHECK(shard_counts(config).weights == 2);
  config.parallel.dp = 3;  // two ranks of a node do not divide it
  CHECK(shard_counts(config).weights == 1);
  config.parallel.pp = 8;
  CHECK(shard_counts(config).weights == 1);
  config.parallel.hsdp_shard = 3;
  CHECK(shard_counts(config).weights == 3);
}

TEST_CASE("precision decides the bytes of a parameter") {
  TrainSpec train;
  CHECK(state_bytes(train).total() == 16);
  train.gradient_precision = Precision::kFloat32;
  CHECK(state_bytes(train).total() == 18);
  train.ema = true;
  CHECK(state_bytes(train).total() == 22);
  train = {};
  train.precision = Precision::kFloat32;
  CHECK(state_bytes(train).total() == 16);
  CHECK(state_bytes(train).master == 0);
}

TEST_CASE("shards are padded to the ceiling") {
  Config config = state_config(10, Engine::kZero1, 4);
  CHECK(category(config, "moments") == 8 * 3);
  CHECK(category(config, "weights") == 2 * 10);
  config.parallel.engine = Engine::kZero3;
  CHECK(category(config, "weights") == 2 * 3);
}

TEST_CASE("more sharding never needs more, and the ranks together hold the whole state") {
  const Engine engines[] = {Engine::kDdp, Engine::kZero1, Engine::kZero2, Engine::kZero3};
  for (std::int64_t ranks : {2, 3, 8, 48}) {
    double before = INFINITY;
    for (Engine engine : engines) {
      const Config config = state_config(1e9 + 7, engine, ranks);
      const StageMemory stage = plan_memory(config).stages[0];
      CHECK(stage.persistent_bytes <= before);
      before = stage.persistent_bytes;
      const double padding = 16.0 * static_cast<double>(ranks);
      const double together = stage.categories.at("moments") * static_cast<double>(ranks);
      const auto copies = static_cast<double>(engine == Engine::kDdp ? ranks : 1);
      CHECK(together >= 8 * (1e9 + 7) * copies);
      CHECK(together <= 8 * (1e9 + 7) * copies + padding);
    }
  }
}

TEST_CASE("golden: recomputing an 8e9 model keeps 9.6 GB and one layer of 5 GB") {
  Config config = state_config(8e9, Engine::kDdp, 1);
  config.model.family = "custom";
  config.model.blocks = {{"layer", 32, 250e6, 0, 5e9, 0.3e9}};
  CHECK(category(config, "activations") == 160e9);
  CHECK(category(config, "weights") == 16e9);
  config.train.recompute = Recompute::kFull;
  CHECK(category(config, "activations") == doctest::Approx(9.6e9));
  CHECK(category(config, "workspace") == 5e9);
}

// One layer of a micro-batch on one rank.
BlockBytes layer_bytes(const Config& config) {
  const ModelShape shape = model_shape(config.model, config.train);
  return block_bytes(config, shape, candidate_of(config)).at(1);
}

TEST_CASE("a 16-bit layer on one rank is s·b·h·(34 + 5·a·s/h)") {
  Config config = gpt3_config();
  config.parallel.tp = 1;
  const double sbh = 2048.0 * 12288;
  CHECK(layer_bytes(config).kept == sbh * (34 + 5.0 * 96 * 2048 / 12288));
  config.train.recompute = Recompute::kSelective;
  CHECK(layer_bytes(config).kept == 34 * sbh);
  config.train.recompute = Recompute::kFull;
  CHECK(layer_bytes(config).kept == 2 * sbh);
  config.parallel.tp = 8;
  config.train.recompute = Recompute::kSelective;
  CHECK(layer_bytes(config).kept == sbh * (10 + 24.0 / 8));
  config.parallel.sequence_parallel = true;
  CHECK(layer_bytes(config).kept == sbh * 34 / 8);
}

TEST_CASE("Korthikanti figure 1: activations and state in GiB") {
  struct Row {
    std::int64_t layers, hidden, heads, pp, vpp, micro_batch;
    double state, none, selective;
  };
  for (const Row& row : {Row{48, 6144, 64, 1, 1, 4, 45.5625, 59.25, 9.5625},
                         Row{96, 12288, 96, 8, 3, 1, 45.5625, 66.84375, 12.3515625},
                         Row{105, 20480, 128, 35, 3, 1, 31.640625, 114.0234375, 23.076171875},
                         Row{128, 25600, 160, 64, 1, 1, 32.958984375, 131.25, 26.5625}}) {
    Config config = gpt3_config();
    config.model = gpt_model(row.layers, row.hidden, row.heads, 51200, 2048);
    config.parallel.pp = row.pp;
    config.parallel.vpp = row.vpp;
    config.parallel.schedule = row.vpp > 1 ? Schedule::kInterleaved : Schedule::k1F1B;
    config.train.micro_batch_size = row.micro_batch;
    config.train.global_batch_size = 20 * row.pp * row.micro_batch;
    const double layers = in_flight_micro_batches(config, 0) * static_cast<double>(row.layers) /
                          static_cast<double>(row.pp);
    CHECK(layers * layer_bytes(config).kept / kGiB == doctest::Approx(row.none).epsilon(1e-12));
    config.parallel.sequence_parallel = true;
    config.train.recompute = Recompute::kSelective;
    CHECK(layers * layer_bytes(config).kept / kGiB ==
          doctest::Approx(row.selective).epsilon(1e-12));
    const auto h = static_cast<double>(row.hidden);
    config.train.gradient_precision = Precision::kFloat32;
    CHECK(state_bytes(config.train).total() * 12 * static_cast<double>(row.layers) * h * h /
              static_cast<double>(8 * row.pp) / kGiB ==
          row.state);
  }
}

TEST_CASE("the first stage holds the embeddings, the last the head and a copy of the tied one") {
  Config config = gpt3_config();
  const std::vector<StageLayout> stages = stage_layouts(config);
  REQUIRE(stages.size() == 8);
  const double h = 12288;
  // Split products, replicated norms and row-parallel biases.
  const double layer = 12 * h * h / 8 + (3 * h + 4 * h) / 8 + 6 * h;
  CHECK(stages[1].parameters == 12 * layer);
  CHECK(stages[0].parameters == 12 * layer + 51200 / 8 * h + 2048 * h);
  CHECK(stages[7].parameters == 12 * layer + 2 * h + 51200 / 8 * h);
  CHECK(stages[7].tensors.back().name == "head.weight");

  config.model.tied_head = false;
  CHECK(stage_layouts(config)[7].parameters == stages[7].parameters);
  config.parallel.pp = 1;
  config.parallel.tp = 1;
  config.model.tied_head = true;
  CHECK(stage_layouts(config)[0].parameters == static_cast<double>(parameter_count(config.model)));
}

TEST_CASE("stages together hold every parameter once, and the tied embedding twice") {
  for (std::int64_t pp : {1, 2, 3, 4, 6}) {
    Config config = gpt3_config();
    config.parallel.tp = 1;
    config.parallel.pp = pp;
    double sum = 0;
    for (const StageLayout& stage : stage_layouts(config)) sum += stage.parameters;
    const double copy = pp > 1 ? 51200.0 * 12288 : 0;
    CHECK(sum == static_cast<double>(parameter_count(config.model)) + copy);
  }
}

TEST_CASE("an explicit pipeline split is followed") {
  Config config = gpt3_config();
  config.parallel.pipeline_split = {10, 12, 12, 12, 12, 13, 13, 12};
  CHECK(stage_layouts(config)[0].layers == 10);
  CHECK(stage_layouts(config)[5].layers == 13);
  config.parallel.pp = 4;  // two virtual stages each: 10 + 12, 12 + 13, …
  config.parallel.vpp = 2;
  CHECK(stage_layouts(config)[0].layers == 22);
  CHECK(stage_layouts(config)[1].layers == 25);
}

TEST_CASE("a vocabulary that tp does not divide is padded") {
  Config config = gpt3_config();
  config.model.vocab = 50257;
  const StageLayout first = stage_layouts(config)[0];
  CHECK(first.tensors[0].shape == std::vector<std::int64_t>{6283, 12288});
}

TEST_CASE("zero3 gathers the unit in use and the next") {
  Config config = gpt3_config();
  config.parallel = {};
  config.parallel.engine = Engine::kZero3;
  config.parallel.dp = 64;
  const std::vector<double> units = stage_layouts(config)[0].units;
  CHECK(units.size() == 98);
  CHECK(category(config, "gathered_units") == 2 * 2 * units[1]);
  CHECK(category(config, "communication") == 2 * units[1]);
}

TEST_CASE("logits are float32 on the last stage, activations fall along a 1F1B pipeline") {
  const Config config = gpt3_config();
  CHECK(category(config, "logits", 0) == 0);
  // They are there when the last stage computes its loss, which is not when it needs most.
  CHECK(category(config, "logits", 7) == 0);
  Config wide = config;
  wide.model.vocab = 512000;
  CHECK(category(wide, "logits", 7) == 4.0 * 2048 * 512000 / 8);
  double before = INFINITY;
  for (std::size_t stage = 0; stage < 7; ++stage) {
    const double bytes = category(config, "activations", stage);
    CHECK(bytes < before);
    before = bytes;
  }
}

TEST_CASE("the CPU engine's plan is exact") {
  Config config = cpu_config(2);
  config.numerics.mode = collectives::Numerics::kFast;
  REQUIRE(runs_on_reference_engine(config));
  const auto phi = static_cast<double>(parameter_count(config.model));
  const StageMemory stage = plan_memory(config).stages.at(0);
  CHECK(stage.categories.at("weights") == 4 * phi);
  CHECK(stage.categories.at("gradients") == 4 * phi);
  CHECK(stage.categories.at("moments") == 8 * phi);
  CHECK(stage.categories.count("master") == 0);
  // A row of logits, and three figures of its softmax.
  CHECK(stage.categories.at("logits") == 4.0 * 2 * 24 * (97 + 3));
  // Tokens and targets as they are loaded, and as they are kept for backward.
  CHECK(stage.categories.at("data") == 2 * 2 * 4.0 * 2 * 24);
  double activations = 0;
  for (const ActivationBuffer& buffer : activation_buffers(config, 0)) {
    if (buffer.tag == MemoryTag::kActivations) activations += static_cast<double>(buffer.bytes);
  }
  CHECK(stage.categories.at("activations") == activations);
  CHECK(stage.persistent_bytes == 16 * phi);
  CHECK(stage.total_bytes == stage.persistent_bytes + stage.transient_bytes);
}

TEST_CASE(
    "the CPU engine's scratch is the larger half of the largest bucket and of the step times") {
  Config config = cpu_config(2);
  config.numerics.mode = collectives::Numerics::kFast;
  config.cluster.ranks_share_memory = false;
  config.train.steps = 1000;
  std::int64_t largest = 0;
  for (const Bucket& bucket : gradient_buckets(parameters(config.model), 5000, 4)) {
    largest = std::max(largest, bucket.count);
  }
  const std::int64_t control = 8 * ((config.train.steps + 1) / 2);
  CHECK(category(config, "communication") ==
        4.0 * static_cast<double>((largest + 1) / 2) + static_cast<double>(control));
  // Direct: the result of a small bucket is built elsewhere, that of a large one is not.
  config.cluster.ranks_share_memory = true;
  CHECK(category(config, "communication") ==
        4.0 * static_cast<double>(largest) + static_cast<double>(control));
  config.train.bucket_bytes = 1 << 30;
  CHECK(category(config, "communication") == static_cast<double>(control));
  CHECK(category(cpu_config(1), "communication") == 0);
}

TEST_CASE("a device with a stated peak, or eight-bit products, is not the CPU engine's") {
  Config config = cpu_config(2);
  config.cluster.preset.clear();
  CHECK(runs_on_reference_engine(config));
  config.cluster.peak_flops = 67e12;
  CHECK_FALSE(runs_on_reference_engine(config));
  config = cpu_config(2);
  config.parallel.engine = Engine::kZero1;
  config.train.precision = Precision::kBFloat16;
  CHECK(runs_on_reference_engine(config));
  config.train.precision = Precision::kFp8;
  CHECK_FALSE(runs_on_reference_engine(config));
}

TEST_CASE("what the memory plan cannot say is said") {
  Config config = state_config(1e9, Engine::kDdp, 8);
  CHECK(check_memory(config, plan_memory(config)).at(0).code == "NQD1303");
  config.cluster.memory_bytes = 0;
  const auto notes = check_memory(config, plan_memory(config));
  REQUIRE(notes.size() == 2);
  CHECK(notes[1].code == "NQD1304");
  CHECK(plan_memory(config).fits);
  config.cluster.memory_bytes = 16.5e9;
  const auto tight = check_memory(config, plan_memory(config));
  REQUIRE(tight.size() == 2);
  CHECK(tight[1].code == "NQD1307");
  CHECK(tight[1].severity == Severity::kWarning);
}

}  // namespace
}  // namespace nqd::planner

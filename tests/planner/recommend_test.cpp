#include "planner/plan/recommend.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "planner/config/config.h"
#include "planner/plan/alternatives.h"
#include "planner/plan/memory.h"
#include "planner/planner.h"
#include "tests/planner/configs.h"

namespace nqd::planner {
namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string advice(const Config& config) { return recommend(config, plan_memory(config)); }

// GPT-2 XL on one node of eight 80 GB devices.
Config xl_config(Engine engine) {
  Config config = gpt3_config();
  config.model = gpt_model(48, 1600, 25, 50257, 1024);
  config.cluster.nodes = 1;
  config.parallel = {};
  config.parallel.engine = engine;
  config.parallel.dp = 8;
  config.train.micro_batch_size = 4;
  config.train.global_batch_size = 32;
  return config;
}

TEST_CASE("golden: 175e9 under ddp on eight 80 GB devices does not fit, and says why") {
  const Config config = state_config(175e9, Engine::kDdp, 8);
  const Plan plan = make_plan(config);
  CHECK_FALSE(plan.valid);
  const auto errors = check_fit(config, plan.memory);
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].code == "NQD1301");
  CHECK(errors[0].severity == Severity::kError);
  CHECK(contains(errors[0].message, "needs 2.80 TB"));
  CHECK(contains(errors[0].message, "the largest part is moments (1.40 TB"));
  CHECK(contains(errors[0].expected, "80.00 GB"));
  CHECK(contains(errors[0].hint,
                 "parallel.engine: zero3, cluster.nodes: 8, cluster.gpus_per_node: 8, "
                 "parallel.dp: 64, train.global_batch_size: 64 fits with"));
  CHECK(contains(plan.recommendation, "zero3 needs at least 35 devices for the state alone"));
  CHECK(
      contains(plan.recommendation, "35, 40, 48, 64 devices leave 0.0, 10.0, 21.7, 36.2 GB each"));
}

TEST_CASE("fixes in the hint are planned: each fits by what it says, and others are left out") {
  Config config = xl_config(Engine::kDdp);
  config.cluster.memory_bytes = 40e9;
  const auto errors = check_fit(config, plan_memory(config));
  REQUIRE(errors.size() == 1);
  const std::vector<Alternative> all = alternatives(config);
  REQUIRE(all.size() >= 5);
  std::size_t named = 0;
  std::size_t fitting = 0;
  for (const Alternative& fix : all) {
    CAPTURE(fix.change);
    const MemoryPlan memory = plan_memory(fix.config);
    CHECK(fix.spare_bytes == memory.limit_bytes - memory.worst_total_bytes);
    const bool in_hint = contains(errors[0].hint, fix.change + " fits with ");
    CHECK((fix.spare_bytes >= 0 || !in_hint));
    named += in_hint ? 1 : 0;
    fitting += fix.spare_bytes >= 0 ? 1 : 0;
  }
  CAPTURE(errors[0].hint);
  CHECK(fitting > 0);
  CHECK(named == std::min<std::size_t>(fitting, 3));
}

// Applies each alternative as a user would, by its edits alone.
std::size_t follow_edits(const std::string& text) {
  const LoadedConfig loaded = load_config_text(text, "t.yaml");
  REQUIRE(loaded.ok());
  REQUIRE_FALSE(plan_memory(loaded.config).fits);
  std::size_t fitting = 0;
  for (const Alternative& fix : alternatives(loaded.config)) {
    CAPTURE(fix.change);
    LoadOptions options;
    for (const auto& [path, value] : fix.edits) options.overrides.push_back(path + "=" + value);
    const LoadedConfig changed = load_config_text(text, "t.yaml", options);
    for (const Diagnostic& diagnostic : changed.diagnostics) INFO(diagnostic.message);
    REQUIRE(changed.ok());
    CHECK(spare_bytes(changed.config) == doctest::Approx(fix.spare_bytes));
    CHECK(make_plan(changed.config).valid == (fix.spare_bytes >= 0));
    fitting += fix.spare_bytes >= 0 ? 1 : 0;
  }
  return fitting;
}

TEST_CASE("following a hint gives a valid plan that fits") {
  const std::string xl = "model: {preset: gpt2-1.5b}\n";
  const std::string small = "cluster: {preset: dgx-h100, memory_bytes: 20 GB}\n";
  const std::string llama = "model: {family: state, parameters: 175e9}\n";
  CHECK(follow_edits(xl + small) > 0);
  CHECK(follow_edits(xl + small + "parallel: {world_size: 8}\n") > 0);
  CHECK(follow_edits(xl + small + "parallel: {dp: 8}\ntrain: {global_batch_size: 24}\n") > 0);
  CHECK(follow_edits(xl + "cluster: {preset: dgx-h100, memory_bytes: 10 GB, nodes: 2}\n" +
                     "parallel: {engine: hsdp, hsdp_shard: 4}\n") > 0);
  CHECK(follow_edits(llama + "cluster: {preset: dgx-h100}\n") > 0);
  CHECK(follow_edits(llama + "cluster: {memory_bytes: 80 GB}\nparallel: {dp: 8}\n") > 0);
}

TEST_CASE("more nodes keep the global batch where it divides, and name what changes") {
  Config config = state_config(175e9, Engine::kDdp, 8);
  config.cluster.preset = "dgx-h100";
  config.train.global_batch_size = 128;
  config.parallel.world_size = 8;
  CHECK(alternatives(config).back().change ==
        "parallel.engine: zero3, cluster.nodes: 8, parallel.dp: 64");
  config.parallel.world_size_given = true;
  CHECK(alternatives(config).back().change ==
        "parallel.engine: zero3, cluster.nodes: 8, parallel.dp: 64, parallel.world_size: 64");
}

TEST_CASE("more nodes are tried with recomputation too") {
  Config config = xl_config(Engine::kZero3);
  config.cluster.preset = "dgx-h100";
  config.cluster.memory_bytes = 6e9;
  config.train.global_batch_size = 1024;
  const std::vector<Alternative> all = alternatives(config);
  const auto found = std::find_if(all.begin(), all.end(), [](const Alternative& fix) {
    return fix.change == "train.recompute: full, cluster.nodes: 2, parallel.dp: 16";
  });
  REQUIRE(found != all.end());
  CHECK(found->spare_bytes >= 0);
}

TEST_CASE("when nothing fits the nearest change is named with what it lacks") {
  Config config = xl_config(Engine::kDdp);
  config.cluster.memory_bytes = 1e6;
  const auto errors = check_fit(config, plan_memory(config));
  REQUIRE(errors.size() == 1);
  CHECK(contains(errors[0].hint, "no single change that was tried fits"));
  CHECK(contains(errors[0].hint, "still lacks"));
}

TEST_CASE("a plan that fits has no fit error") {
  const Config config = xl_config(Engine::kZero1);
  CHECK(check_fit(config, plan_memory(config)).empty());
}

TEST_CASE("state formulas") {
  Config config = state_config(1e9, Engine::kDdp, 8);
  CHECK(state_formula(config) == "16Φ");
  config.parallel.engine = Engine::kZero1;
  CHECK(state_formula(config) == "4Φ + 12Φ/8");
  config.parallel.engine = Engine::kZero2;
  CHECK(state_formula(config) == "2Φ + 14Φ/8");
  config.parallel.engine = Engine::kZero3;
  CHECK(state_formula(config) == "16Φ/8");
  config.train.ema = true;
  CHECK(state_formula(config) == "20Φ/8");
}

// Eight micro-batches a step: over one, the optimizer's traffic, which sharding divides, is a tenth
// of the step.
Config busy_xl_config(Engine engine) {
  Config config = xl_config(engine);
  config.train.global_batch_size = 256;
  return config;
}

TEST_CASE("golden posture: ddp whenever it fits, and lighter layouts are told so") {
  const std::string ddp = advice(xl_config(Engine::kDdp));
  CHECK(contains(ddp, "ddp: 16Φ + activations and buffers = "));
  CHECK(contains(ddp, "fits 80.00 GB"));
  CHECK(contains(ddp, "nothing to shard"));
  CHECK_FALSE(contains(ddp, "use "));
  CHECK(contains(advice(busy_xl_config(Engine::kZero3)), "use ddp: "));
}

TEST_CASE("golden posture: 6e9 parameters need zero1 on 80 GB") {
  const std::string text = advice(state_config(6e9, Engine::kDdp, 8));
  CHECK(contains(text, "use zero1: 4Φ + 12Φ/8"));
  CHECK(contains(text, "ddp would need 96.05 GB"));
}

TEST_CASE("golden posture: checkpointing before splitting the model") {
  Config config = xl_config(Engine::kDdp);
  config.train.micro_batch_size = 16;
  config.train.global_batch_size = 128;
  CHECK(contains(advice(config), "use ddp with recompute: full"));
}

TEST_CASE("golden posture: sharding across nodes stays inside a node by hsdp when that fits") {
  Config config = state_config(20e9, Engine::kZero3, 64);
  config.cluster.memory_bytes = 46e9;
  CHECK(contains(advice(config), "use hsdp: "));
  config.cluster.memory_bytes = 30e9;
  CHECK(contains(advice(config), "zero3: "));
}

TEST_CASE("golden posture: a model of 2e6 parameters needs no model parallelism") {
  const std::string text = advice(state_config(1.95e6, Engine::kDdp, 2));
  CHECK(contains(text, "no model parallelism pays: the data path decides"));
}

TEST_CASE("a plan that fits is compared by throughput where the rates are known") {
  const std::string text = advice(busy_xl_config(Engine::kZero3));
  CHECK(contains(text, "at much the same speed ("));
  CHECK(contains(advice(xl_config(Engine::kZero3)), "use ddp: "));
  // Above 100e9 parameters the model is split before its weights cross nodes.
  Config gpt3 = gpt3_config();
  gpt3.train.recompute = Recompute::kFull;
  CHECK(contains(advice(gpt3), "tp 8 in the node"));
}

TEST_CASE("a plan that fits is never told that nothing does") {
  Config config = gpt3_config();
  config.model = gpt_model(48, 1600, 25, 50257, 1024);
  config.cluster.nodes = 1;
  config.cluster.gpus_per_node = 5;
  config.parallel = {};
  config.parallel.tp = 5;
  config.train.global_batch_size = 16;  // five replicas cannot share it
  REQUIRE(make_plan(config).valid);
  const std::string text = advice(config);
  CHECK(contains(text, "ddp + tp 5: "));
  CHECK_FALSE(contains(text, "no layout"));
}

TEST_CASE("without a known memory the advice is by size and says so") {
  Config config = state_config(3e9, Engine::kDdp, 8);
  config.cluster.memory_bytes = 0;
  CHECK(contains(advice(config), "by size alone"));
  CHECK(contains(advice(config), "ddp, or zero1"));
}

TEST_CASE("GPT-3 on 64 devices of 80 GB is split inside and across nodes") {
  Config config = gpt3_config();
  config.train.recompute = Recompute::kFull;
  config.parallel.sequence_parallel = true;
  const Plan plan = make_plan(config);
  CHECK(plan.valid);
  CHECK(plan.memory.stages.size() == 8);
  CHECK_FALSE(plan.recommendation.empty());
}

}  // namespace
}  // namespace nqd::planner

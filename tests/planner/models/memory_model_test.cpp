#include "planner/estimate/memory_model.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/units.h"
#include "planner/mesh/stages.h"
#include "planner/plan/memory.h"
#include "tests/planner/configs.h"

namespace nqd::planner {
namespace {

Config moe_config() {
  Config config = gpt3_config();
  ModelSpec& model = config.model;
  model = gpt_model(13, 1024, 16, 32003, 512);
  model.family = "moe";
  model.kv_heads = 4;
  model.gated_mlp = true;
  model.tied_head = false;
  model.mtp_layers = 1;
  model.moe = {16, 2, 512, 1024, 2, 0, true};
  config.parallel = {};
  config.train.runtime = Runtime::kMegatron;
  return config;
}

double sum_of(const StageMemory& stage) {
  double total = 0;
  for (const auto& [name, bytes] : stage.categories) total += bytes;
  return total;
}

template <typename Use>
void for_each_candidate(Use use) {
  const Engine engines[] = {Engine::kDdp, Engine::kZero1, Engine::kZero2, Engine::kZero3};
  const std::pair<Schedule, std::int32_t> schedules[] = {
      {Schedule::kGPipe, 1},       {Schedule::k1F1B, 1}, {Schedule::kZbH1, 1},
      {Schedule::kInterleaved, 2}, {Schedule::kZbH2, 1}, {Schedule::kZbV, 2}};
  for (const Engine engine : engines) {
    for (const auto& [schedule, vpp] : schedules) {
      for (const std::int32_t pp : {1, 2, 4}) {
        for (const std::int32_t tp : {1, 2, 8}) {
          Candidate candidate{.dp = 4, .tp = tp, .pp = pp, .cp = 2, .ep = 4};
          candidate.vpp = vpp;
          candidate.engine = engine;
          candidate.schedule = schedule;
          candidate.micro_batches = 8;
          candidate.sequence_parallel = tp > 1;
          candidate.recompute = static_cast<Recompute>((pp + tp) % 3);
          use(candidate);
        }
      }
    }
  }
}

TEST_CASE("the closed form is the plan's worst stage, to the last bit, and the sum of its parts") {
  for (const Runtime runtime :
       {Runtime::kNqd, Runtime::kMegatron, Runtime::kDeepSpeed, Runtime::kFsdp2}) {
    Config base = moe_config();
    base.train.runtime = runtime;
    MemoryModel model(base);
    for_each_candidate([&](const Candidate& candidate) {
      const WorstStage worst = model.worst(candidate);
      const MemoryPlan plan = model.stages(candidate);
      CHECK(worst.total_bytes == plan.worst_total_bytes);
      const StageMemory& stage = worst_stage(plan);
      CHECK(worst.stage == stage.stage);
      CHECK(worst.persistent_bytes == stage.persistent_bytes);
      CHECK(sum_of(stage) == doctest::Approx(stage.total_bytes).epsilon(1e-14));
      CHECK(plan_memory(with_candidate(base, candidate)).worst_total_bytes == worst.total_bytes);
    });
  }
}

TEST_CASE("weights of all ranks together are the model, whatever divides it") {
  const Config base = moe_config();
  const auto whole = static_cast<double>(parameter_count(base.model));
  for (const std::int32_t pp : {1, 2, 4}) {
    Candidate candidate{.pp = pp};
    candidate.ep = 4;
    double dense = 0;
    for (const StageMemory& stage : MemoryModel(base).stages(candidate).stages) {
      dense += stage.categories.at("weights") / 2;
    }
    // Without tp only the experts are divided, and the last stage embeds tokens for its module.
    const double experts = 11.0 + 1;
    const double expert = 16.0 * (3 * 1024 * 512 + 2 * 512 + 1024);  // with biases
    const double copy = pp > 1 ? 32003.0 * 1024 : 0;
    CHECK(dense == whole - experts * expert * 3 / 4 + copy);
  }
}

TEST_CASE("a stage's weights are those of its tensors") {
  Config config = moe_config();
  config.parallel.pp = 4;
  config.parallel.tp = 2;
  config.parallel.ep = 4;
  config.parallel.sequence_parallel = true;
  config.train.global_batch_size = 8;
  const MemoryPlan plan = plan_memory(config);
  for (const StageLayout& layout : stage_layouts(config)) {
    const auto& categories = plan.stages.at(static_cast<std::size_t>(layout.stage)).categories;
    CHECK(categories.at("weights") == 2 * layout.parameters);
  }
}

TEST_CASE("more of any axis that shards never needs more") {
  MemoryModel model(moe_config());
  const auto total = [&](const Candidate& candidate) {
    const MemoryPlan plan = model.stages(candidate);
    const StageMemory& stage = worst_stage(plan);
    // The context grows with the number of communicators.
    const auto context = stage.categories.find("device_context");
    return stage.total_bytes - (context == stage.categories.end() ? 0 : context->second);
  };
  Candidate candidate{.dp = 2, .tp = 2, .cp = 2, .ep = 2};
  candidate.engine = Engine::kZero3;
  candidate.sequence_parallel = true;
  candidate.micro_batches = 8;
  const double before = total(candidate);
  for (std::int32_t Candidate::*axis : {&Candidate::dp, &Candidate::tp, &Candidate::cp}) {
    Candidate more = candidate;
    more.*axis *= 2;
    CHECK(total(more) < before);
  }
  Candidate larger = candidate;
  larger.micro_batch_size = 2;
  CHECK(total(larger) > before);
  candidate.recompute = Recompute::kFull;
  CHECK(total(candidate) < before);
}

TEST_CASE("recomputing every fourth layer keeps a quarter of the inputs and works on four layers") {
  Config config = gpt3_config();
  config.train.recompute = Recompute::kFull;
  const StageMemory each = plan_memory(config).stages.at(1);
  config.train.recompute_every = 4;
  const StageMemory fourth = plan_memory(config).stages.at(1);
  CHECK(fourth.categories.at("activations") == each.categories.at("activations") / 4);
  CHECK(fourth.categories.at("workspace") == 4 * each.categories.at("workspace"));
}

TEST_CASE("optimizers and offloading decide what is kept") {
  TrainSpec train;
  train.optimizer.kind = OptimizerKind::kSgdMomentum;
  CHECK(state_bytes(train).total() == 12);
  train.optimizer.kind = OptimizerKind::kSgd;
  CHECK(state_bytes(train).total() == 8);
  train.optimizer = {};
  train.optimizer.offload = true;
  CHECK(state_bytes(train).total() == 4);
  train.optimizer = {};
  train.runtime = Runtime::kFsdp2;
  CHECK(state_bytes(train).total() == 16);
  CHECK(state_bytes(train).weights == 0);
  train.runtime = Runtime::kDeepSpeed;
  CHECK(state_bytes(train).total() == 20);
}

TEST_CASE("DeepSpeed's zero2 is 2Φ + 18Φ/N, Megatron's distributed optimizer 6Φ + 12Φ/N") {
  // DeepSpeed's own estimate (pull request 5099), and Megatron-Core's documentation.
  Config config = state_config(8e9, Engine::kZero2, 4);
  config.train.runtime = Runtime::kDeepSpeed;
  CHECK(plan_memory(config).stages[0].persistent_bytes == 2 * 8e9 + 18 * 2e9);
  config.train.runtime = Runtime::kMegatron;
  config.train.gradient_precision = Precision::kFloat32;
  config.parallel.engine = Engine::kZero1;
  CHECK(plan_memory(config).stages[0].persistent_bytes == 6 * 8e9 + 12 * 2e9);
}

TEST_CASE("a warm evaluation takes microseconds") {
  Config config = gpt3_config();
  config.model.layers = 126;
  MemoryModel model(config);
  Candidate candidate = candidate_of(config);
  candidate.pp = 16;
  candidate.micro_batches = 64;
  double sum = model.worst(candidate).total_bytes;
  const int calls = 20000;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) {
    candidate.micro_batches = 64 + i % 8;
    sum += model.worst(candidate).total_bytes;
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  CHECK(sum > 0);
  // 1 us in a release build; sanitizers and a busy machine get room.
  CHECK(elapsed.count() / calls < 100e-6);
}

}  // namespace
}  // namespace nqd::planner

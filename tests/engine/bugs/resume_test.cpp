// Runs that stop, and go on from their save: on the same mesh or another, at any step.
#include <doctest/doctest.h>

#include <vector>

#include "collectives/world.h"
#include "engine/trainer.h"
#include "planner/layout/buckets.h"
#include "planner/layout/rank_units.h"
#include "planner/layout/state_shape.h"
#include "planner/planner.h"
#include "tests/engine/bugs/bed.h"
#include "tests/temporary_folder.h"

using namespace nqd;
using bugs::Mesh;
using planner::Config;
using planner::Engine;
using planner::Precision;
using planner::Schedule;

namespace {

// One run in several legs, which save when they end.
class Journey {
 public:
  explicit Journey(const Config& config, std::int64_t train_samples = 0)
      : config_(config), data_(bugs::make_data(folder_.path(), config, train_samples)) {}

  // On from the end of the last leg until step `until` is done.
  engine::TrainResult go(const Mesh& mesh, std::int64_t until) {
    const Config here = bugs::on(config_, mesh);
    INFO(bugs::words(here));
    REQUIRE(bugs::violations(here) == "");
    const planner::Plan plan = planner::make_plan(here);
    engine::TrainResult result;
    const auto rank = [&](collectives::Communicator& world) {
      engine::TrainResult own;
      std::int64_t done = done_;
      engine::TrainOptions options;
      options.checkpoints.folder = folder_ / "saves";
      options.checkpoints.resume = folder_ / "saves";
      options.on_step = [&](const engine::StepRecord& step) { done = step.step; };
      options.asked_to_stop = [&] { return done + 1 == until; };
      engine::train(world, plan, data_, options, own);
      if (world.rank() == 0) result = std::move(own);
    };
    collectives::run_threads(static_cast<int>(here.parallel.ranks()), {}, rank);
    REQUIRE(result.steps.size() == static_cast<std::size_t>(until - done_));
    done_ = until;
    return result;
  }

 private:
  testing::TemporaryFolder folder_;
  Config config_;
  engine::TrainingData data_;
  std::int64_t done_ = 0;
};

// The steps that `leg` made have the records of the whole run, and its weights are `weights`.
void check_leg(const engine::TrainResult& leg, const engine::TrainResult& whole,
               const std::string& weights) {
  for (const engine::StepRecord& step : leg.steps) {
    const engine::StepRecord& expected = whole.steps[static_cast<std::size_t>(step.step - 1)];
    CAPTURE(step.step);
    CHECK(step.loss == expected.loss);
    CHECK(step.grad_norm == expected.grad_norm);
    CHECK(step.lr == expected.lr);
    CHECK(step.tokens == expected.tokens);
  }
  CHECK(leg.weights_sha256 == weights);
}

// Legs of as many steps each as meshes are given, against one rank that never stopped.
void check_journey(Config config, const std::vector<Mesh>& meshes, std::int64_t steps_a_leg = 1) {
  config.train.steps = steps_a_leg * static_cast<std::int64_t>(meshes.size());
  const engine::TrainResult whole = Journey(config).go({}, config.train.steps);
  Journey legs(config);
  engine::TrainResult last;
  for (std::size_t i = 0; i < meshes.size(); ++i) {
    last = legs.go(meshes[i], steps_a_leg * static_cast<std::int64_t>(i + 1));
    check_leg(last, whole, last.weights_sha256);
  }
  CHECK(last.weights_sha256 == whole.weights_sha256);
}

}  // namespace

// pytorch/torchtitan#1136 (the loss after a resume differs where ranks do not divide the
// vocabulary).
TEST_CASE("a vocabulary of 257 resumes with the same bits on 2, 3 and 4 ranks") {
  Config config = bugs::tiny_gpt();
  config.model.vocab = 257;
  for (const std::int64_t dp : {2, 3, 4}) {
    const Mesh mesh{.dp = dp, .engine = Engine::kZero3};
    check_journey(config, {mesh, mesh, mesh});
  }
}

// deepspeedai/DeepSpeed#2898, #3810, #5405, Lightning-AI/pytorch-lightning#16815 (no other number
// of ranks), NVIDIA/Megatron-LM#659 (only multiples of it).
TEST_CASE("a save of 4 ranks goes on on 3 and on 6, one of 2 on 3") {
  for (const Engine engine : {Engine::kZero1, Engine::kZero2, Engine::kZero3}) {
    const auto on = [&](std::int64_t dp) { return Mesh{.dp = dp, .engine = engine}; };
    check_journey(bugs::tiny_gpt(), {on(4), on(3), on(2), on(3), on(4), on(6)});
  }
}

// NVIDIA/Megatron-LM PR#5077 (moments wrong behind the first padded bucket).
TEST_CASE("moments behind the first of many padded buckets come back where they belong") {
  Config config = bugs::tiny_gpt();
  config.train.global_batch_size = 20;
  config.train.ema = true;
  const Mesh few{.dp = 2};
  const Mesh odd{.dp = 5, .engine = Engine::kZero1};
  const Config ddp = bugs::on(config, few);
  CHECK(planner::unit_buckets(planner::state_shape(ddp), planner::stage_units(ddp, 0, 0)).size() >=
        3);
  std::int64_t padded = 0;
  for (const planner::LocalUnit& unit : planner::stage_units(bugs::on(config, odd), 0, 0)) {
    padded += unit.elements % 5 != 0 ? 1 : 0;
  }
  CHECK(padded >= 3);
  check_journey(config, {odd, few, {.dp = 4, .engine = Engine::kZero3}, odd, few}, 2);
}

// NVIDIA/Megatron-LM#1517, NVIDIA-NeMo/Megatron-Bridge#5100 (a layout of the mesh that saved,
// random numbers keyed by it). Seven meshes of four ranks: for every d from 1 to 6 the run goes
// round them in steps of d, so that each hands over to each other one once.
TEST_CASE("every mesh of four ranks goes on from every other, with dropout") {
  const std::vector<Mesh> meshes = {
      {.dp = 4, .engine = Engine::kZero3},
      {.tp = 4},
      {.pp = 4},
      {.dp = 2, .tp = 2, .engine = Engine::kZero1},
      {.dp = 2, .pp = 2, .engine = Engine::kZero2, .schedule = Schedule::kInterleaved, .vpp = 2},
      {.tp = 2, .pp = 2, .schedule = Schedule::kZbH1, .sequence_parallel = true},
      {.dp = 4, .engine = Engine::kHsdp, .hsdp_shard = 2}};
  std::vector<Mesh> round = {meshes.front()};
  std::size_t at = 0;
  for (std::size_t d = 1; d < meshes.size(); ++d) {
    for (std::size_t i = 0; i < meshes.size(); ++i) {
      at = (at + d) % meshes.size();
      round.push_back(meshes[at]);
    }
  }
  Config config = bugs::tiny_gpt();
  config.train.dropout = true;
  config.train.global_batch_size = 4;
  check_journey(config, round);
}

// NovaSky-AI/SkyRL#1403 (a stale step count spoils the bias correction of the first update),
// PR#2149 (weights are loaded, their float32 master is not).
TEST_CASE("the first update after a resume is that of the run which did not stop") {
  for (const Precision precision :
       {Precision::kFloat32, Precision::kBFloat16, Precision::kFloat16}) {
    for (const Mesh& mesh : {Mesh{}, Mesh{.dp = 2, .engine = Engine::kZero1},
                             Mesh{.dp = 3, .engine = Engine::kZero3}}) {
      Config config = bugs::tiny_gpt();
      config.train.precision = precision;
      config.train.steps = 4;
      Journey straight(config);
      const engine::TrainResult whole = straight.go({}, 3);
      Journey legs(config);
      legs.go(mesh, 2);
      check_leg(legs.go(mesh, 3), whole, whole.weights_sha256);
    }
  }
}

// EleutherAI/gpt-neox PR#308, huggingface/accelerate#2016, #4071, huggingface/lerobot#4692 (data
// read twice after a resume in mid-epoch, with accumulation, in a later epoch);
// Lightning-AI/pytorch-lightning#1772, #4655, THUDM/slime#1547 (the learning rate off by one).
TEST_CASE("wherever a run is cut, it reads on where it stopped, at the rate of that step") {
  constexpr std::int64_t kSamples = 20;  // an epoch is less than two steps of 12
  Config config = bugs::tiny_gpt();
  config.train.steps = 6;
  const Mesh mesh{.dp = 2, .engine = Engine::kZero2};  // six micro-batches a step
  const engine::TrainResult whole = Journey(config, kSamples).go(mesh, 6);
  for (const std::int64_t cut : {1, 2, 3, 4, 5}) {
    Journey legs(config, kSamples);
    legs.go(mesh, cut);
    check_leg(legs.go(mesh, 6), whole, whole.weights_sha256);
  }
}

// One norm for the whole model, each parameter in it once, and a mean over tokens: not over stages,
// ranks or micro-batches.
#include <doctest/doctest.h>

#include <algorithm>

#include "collectives/world.h"
#include "engine/parallel/mesh_groups.h"
#include "engine/train/rank_state.h"
#include "planner/layout/layout.h"
#include "tests/engine/bugs/bed.h"

using namespace nqd;
using bugs::Mesh;
using planner::Config;
using planner::Engine;
using planner::Schedule;

namespace {

const std::vector<Mesh> kMeshes = {
    {.pp = 2},
    {.pp = 4, .schedule = Schedule::kZbH1},
    {.pp = 2, .schedule = Schedule::kInterleaved, .vpp = 2},
    {.tp = 2},
    {.tp = 4, .sequence_parallel = true},
    {.dp = 2, .tp = 2, .pp = 2, .engine = Engine::kZero3},
    {.dp = 4, .pp = 2, .engine = Engine::kHsdp, .hsdp_shard = 2},
    {.dp = 3, .tp = 2, .engine = Engine::kZero1},
};

double squares_of_ones(const Config& config) {
  double squares = 0;
  collectives::run_threads(
      static_cast<int>(config.parallel.ranks()), {}, [&](collectives::Communicator& world) {
        MemoryLedger ledger;
        engine::MeshGroups groups = engine::join_mesh(world, config, ledger);
        engine::RankState state(config, groups, ledger, engine::Mutant::kNone, {});
        state.store().for_each_shard([](const engine::ShardRun& run) {
          std::fill(run.gradient.begin(), run.gradient.end(), 1.0F);
        });
        engine::RankTotals mine;
        mine.squared_gradients = state.store().squared_gradients();
        const engine::StepTotals totals = engine::add_up(*groups.control, mine);
        if (world.rank() == 0) squares = totals.squared_gradients;
      });
  return squares;
}

}  // namespace

// pytorch/torchtitan#596 (every stage clipped by its own norm), its PR#649 (every virtual stage),
// #4312 (the last place of the norm depends on the mesh and leaks into the weights).
TEST_CASE("gradients are clipped by the norm of the whole model, to the bit, on every mesh") {
  Config config = bugs::tiny_gpt();
  config.train.optimizer.grad_clip = 0.05;
  const engine::ParityRun reference = bugs::run(config);
  for (const double norm : reference.grad_norms) CHECK(norm > 0.05);
  Config unclipped = config;
  unclipped.train.optimizer.grad_clip = 0;
  CHECK(bugs::run(unclipped).weights_sha256 != reference.weights_sha256);
  bugs::check_meshes(config, kMeshes);
}

// NVIDIA-NeMo/RL#3788 (norms and biases that tp ranks hold alike counted tp times),
// NVIDIA/Megatron-LM#2263, bigcode-project/Megatron-LM#11 (parts of virtual stages left out).
TEST_CASE("every parameter is counted once: the squares of gradients of one are their number") {
  for (const Config& config : {bugs::tiny_gpt(), bugs::tiny_llama()}) {
    const auto parameters = static_cast<double>(planner::parameter_count(config.model));
    for (const Mesh& mesh : kMeshes) {
      const Config here = bugs::on(config, mesh);
      INFO(bugs::words(here));
      CHECK(squares_of_ones(here) == parameters);
    }
  }
}

// huggingface/transformers PR#34191, #35203, #35438 (means of means over micro-batches), #34242,
// pytorch/torchtitan#1842, PrimeIntellect-ai/prime-rl#1960 (the same over ranks), torchtitan#2972
// (a pipeline without the division), NVIDIA/Megatron-LM#906 (divided by another group).
TEST_CASE("the loss is a mean over tokens, however unevenly ranks and micro-batches have them") {
  Config config = bugs::tiny_gpt();
  config.train.global_batch_size = 4;
  const std::vector<bugs::Sequence> batch = bugs::ragged(config, {5, 1, 8, 0});
  const bugs::Step reference = bugs::one_step(config, batch);
  CHECK(reference.totals.targets == 14);
  for (const Mesh& mesh :
       {Mesh{.dp = 2}, Mesh{.dp = 4}, Mesh{.dp = 2, .engine = Engine::kZero1},
        Mesh{.dp = 4, .engine = Engine::kZero2}, Mesh{.dp = 2, .engine = Engine::kZero3},
        Mesh{.pp = 2}, Mesh{.dp = 2, .pp = 2}, Mesh{.tp = 4, .sequence_parallel = true},
        Mesh{.pp = 4, .schedule = Schedule::kZbH1}}) {
    const Config here = bugs::on(config, mesh);
    INFO(bugs::words(here));
    bugs::check_same(bugs::one_step(here, batch), reference);
  }
  // Sequences in one micro-batch: the same sums in another order.
  for (const std::int64_t together : {2, 4}) {
    Config here = config;
    here.train.micro_batch_size = together;
    const bugs::Step step = bugs::one_step(here, batch);
    CHECK(step.totals.targets == 14);
    CHECK(step.totals.loss_sum == doctest::Approx(reference.totals.loss_sum).epsilon(1e-6));
    bugs::check_close(here, step.gradients, reference.gradients, 0x1p-23);
  }
}

// The same in fast numerics, where nothing is promised to the bit.
TEST_CASE("fast numerics: gradients on every mesh are those of one rank up to rounding") {
  Config config = bugs::tiny_gpt();
  config.train.global_batch_size = 8;
  const std::vector<bugs::Sequence> batch = bugs::ragged(config, {5, 1, 8, 3, 8, 2, 7, 1});
  const bugs::Step reference = bugs::one_step(config, batch);
  config.numerics.mode = collectives::Numerics::kFast;
  for (const Mesh& mesh : {Mesh{}, Mesh{.dp = 2}, Mesh{.dp = 4, .engine = Engine::kZero3},
                           Mesh{.tp = 4, .sequence_parallel = true}, Mesh{.tp = 3},
                           Mesh{.pp = 2, .schedule = Schedule::kInterleaved, .vpp = 2},
                           Mesh{.dp = 2, .tp = 2, .pp = 2, .engine = Engine::kZero2}}) {
    const Config here = bugs::on(config, mesh);
    INFO(bugs::words(here));
    const bugs::Step step = bugs::one_step(here, batch);
    CHECK(step.totals.targets == reference.totals.targets);
    bugs::check_close(here, step.gradients, reference.gradients, 0x1p-23);
  }
}

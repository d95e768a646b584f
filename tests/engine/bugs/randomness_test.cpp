// Dropout is a function of the seed, the step, the layer and an element's place in the global
// batch.
#include <doctest/doctest.h>

#include "tests/engine/bugs/bed.h"

using namespace nqd;
using bugs::Mesh;
using planner::Config;
using planner::Engine;
using planner::Recompute;
using planner::Schedule;

namespace {

Config with_dropout() {
  Config config = bugs::tiny_gpt();
  config.train.dropout = true;
  return config;
}

}  // namespace

// InternLM/InternLM PR#405, PaddlePaddle/PaddleFleetX PR#1005, NVIDIA/Megatron-LM PR#206 (seeds
// that are equal where they must differ, over dp, or differ where they must be equal, over tp).
TEST_CASE("dropout has the same masks on every mesh") {
  const Config config = with_dropout();
  CHECK(bugs::run(config).losses != bugs::run(bugs::tiny_gpt()).losses);
  bugs::check_meshes(
      config, {{.dp = 2},
               {.dp = 3, .engine = Engine::kZero3},
               {.dp = 4, .engine = Engine::kHsdp, .hsdp_shard = 2},
               {.tp = 2},
               {.tp = 4, .sequence_parallel = true},
               {.pp = 2, .schedule = Schedule::kInterleaved, .vpp = 2},
               {.pp = 4, .schedule = Schedule::kZbH1},
               {.dp = 2, .tp = 2, .pp = 2, .engine = Engine::kZero2, .sequence_parallel = true}});
}

TEST_CASE("dropout has other masks for every sequence and step") {
  Config config = with_dropout();
  config.train.global_batch_size = 1;
  const auto one = bugs::ragged(config, {8});
  const double first = bugs::one_step(config, one, 1).totals.loss_sum;
  CHECK(bugs::one_step(config, one, 1).totals.loss_sum == first);
  CHECK(bugs::one_step(config, one, 2).totals.loss_sum != first);
  config.train.global_batch_size = 2;
  const std::vector<bugs::Sequence> twice(2, one.front());
  const double both = bugs::one_step(config, twice, 1).totals.loss_sum;
  CHECK(both != 2 * first);
  CHECK(bugs::one_step(bugs::on(config, {.dp = 2}), twice, 1).totals.loss_sum == both);
}

// allenai/OLMo-core#828, openai/guided-diffusion#167, pytorch/torchtitan#1323, pytorch#190758 (what
// is computed again draws other masks).
TEST_CASE("recomputation uses the masks of the forward pass") {
  const Config config = with_dropout();
  const engine::ParityRun reference = bugs::run(config);
  for (const auto& [kind, every] : std::vector<std::pair<Recompute, std::int64_t>>{
           {Recompute::kSelective, 1}, {Recompute::kFull, 1}, {Recompute::kFull, 2}}) {
    for (const Mesh& mesh : {Mesh{}, Mesh{.tp = 2, .sequence_parallel = true}, Mesh{.pp = 2},
                             Mesh{.dp = 2, .engine = Engine::kZero3}}) {
      Config here = bugs::on(config, mesh);
      here.train.recompute = kind;
      here.train.recompute_every = every;
      INFO(bugs::words(here));
      INFO(every);
      bugs::check_same(bugs::run(here), reference);
    }
  }
}

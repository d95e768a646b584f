// Samples that ranks cannot share evenly: each is seen once, whatever the number of ranks.
#include <doctest/doctest.h>

#include "tests/engine/bugs/bed.h"

using namespace nqd;
using bugs::Mesh;
using planner::Config;
using planner::Engine;

// pytorch#25162, #22584, roboflow/rf-detr#1507 (the sampler repeats samples to fill up ranks, and
// the metric depends on their number).
TEST_CASE("21 held-out samples on 2, 3 and 4 ranks: the metric of one rank, to the bit") {
  Config config = bugs::tiny_gpt();
  config.train.steps = 1;
  for (const auto& [together, batches] : {std::pair{1, 21}, std::pair{3, 7}}) {
    config.train.micro_batch_size = together;
    config.train.global_batch_size = 12 * together;
    config.train.eval_batches = batches;
    bugs::check_meshes(config, {{.dp = 2},
                                {.dp = 3, .engine = Engine::kZero3},
                                {.dp = 4, .engine = Engine::kZero1},
                                {.dp = 4, .pp = 2}});
  }
  // More ranks than samples: some see none.
  config.train.micro_batch_size = 1;
  config.train.global_batch_size = 12;
  config.train.eval_batches = 2;
  bugs::check_meshes(config, {{.dp = 3}, {.dp = 4, .engine = Engine::kZero2}});
}

// NVIDIA-NeMo/Megatron-Bridge#5944 (10 rows for 3 ranks: they get 4, 3 and 3, and their epochs
// drift apart).
TEST_CASE("ten samples for three ranks: every epoch ends in the same step on all of them") {
  Config config = bugs::tiny_gpt();
  config.train.micro_batch_size = 2;
  config.train.global_batch_size = 6;
  config.train.steps = 5;
  const engine::ParityRun reference = bugs::run(config, 10);
  bugs::check_same(bugs::run(bugs::on(config, {.dp = 3}), 10), reference);
  bugs::check_same(bugs::run(bugs::on(config, {.dp = 3, .engine = Engine::kZero2}), 10), reference);
  CHECK(bugs::run(config, 11).losses != reference.losses);
}

// A model that is large enough for its text learns it by heart, on any mesh.
#include <doctest/doctest.h>

#include "tests/engine/bugs/bed.h"

using namespace nqd;
using bugs::Mesh;
using planner::Config;
using planner::Engine;
using planner::Schedule;

namespace {

void check_overfits(const Config& config) {
  INFO(bugs::words(config));
  const engine::ParityRun found = bugs::run(config, 4);
  CHECK(found.error == "");
  REQUIRE(found.losses.size() == 100);
  CHECK(found.losses.front() > 3.5);
  CHECK(found.losses.back() < 0.02);
}

}  // namespace

TEST_CASE("a tiny model overfits four sequences to near zero loss on every kind of mesh") {
  for (Config config : {bugs::tiny_gpt(), bugs::tiny_llama()}) {
    config.model.layers = 2;
    config.train.global_batch_size = 4;
    config.train.steps = 100;
    config.train.optimizer.learning_rate = 1e-2;
    config.train.optimizer.weight_decay = 0;
    for (const Mesh& mesh :
         {Mesh{}, Mesh{.dp = 2}, Mesh{.dp = 2, .engine = Engine::kZero1},
          Mesh{.dp = 4, .engine = Engine::kZero3},
          Mesh{.dp = 4, .engine = Engine::kHsdp, .hsdp_shard = 2}, Mesh{.tp = 4},
          Mesh{.tp = 2, .sequence_parallel = true}, Mesh{.pp = 2, .schedule = Schedule::kGPipe},
          Mesh{.pp = 2}, Mesh{.pp = 2, .schedule = Schedule::kZbH1},
          Mesh{.dp = 2, .tp = 2, .pp = 2, .engine = Engine::kZero2}}) {
      check_overfits(bugs::on(config, mesh));
    }
    // hpcaitech/ColossalAI#4348 (interleaved stages whose loss does not fall).
    config.model.layers = 4;
    check_overfits(bugs::on(config, {.pp = 2, .schedule = Schedule::kInterleaved, .vpp = 2}));
    Config uneven = bugs::on(config, {.pp = 2});
    uneven.parallel.pipeline_split = {3, 1};
    check_overfits(uneven);
  }
}

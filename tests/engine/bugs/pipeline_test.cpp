// Pipelines that are short of micro-batches, uneven, or tied at both ends.
#include <doctest/doctest.h>

#include "tests/engine/bugs/bed.h"

using namespace nqd;
using bugs::Mesh;
using planner::Config;
using planner::Engine;
using planner::Schedule;

// pytorch/torchtitan#775, pytorch#144702 (a schedule hangs when there are fewer micro-batches than
// stages).
TEST_CASE(
    "1 to p + 1 micro-batches: every schedule runs with the bits of one rank, or is refused") {
  int ran = 0;
  int refused = 0;
  for (const std::int64_t pp : {2, 4}) {
    for (std::int64_t m = 1; m <= pp + 1; ++m) {
      Config config = bugs::tiny_gpt();
      config.model.layers = 8;
      config.train.global_batch_size = m;
      config.train.steps = 2;
      const engine::ParityRun reference = bugs::run(config);
      for (const Schedule schedule : {Schedule::kGPipe, Schedule::k1F1B, Schedule::kInterleaved,
                                      Schedule::kZbH1, Schedule::kZbH2, Schedule::kZbV}) {
        const bool two = schedule == Schedule::kInterleaved || schedule == Schedule::kZbV;
        const Config here = bugs::on(config, {.pp = pp, .schedule = schedule, .vpp = two ? 2 : 1});
        INFO(bugs::words(here));
        const std::string found = bugs::violations(here);
        if (found.empty()) {
          ++ran;
          bugs::check_same(bugs::run(here), reference);
        } else {
          ++refused;
          // Interleaving takes micro-batches in groups of p.
          CHECK(schedule == Schedule::kInterleaved);
          CHECK(m % pp != 0);
          CHECK(found.find("NQD1211") == 0);
        }
      }
    }
  }
  CHECK(ran == 42);
  CHECK(refused == 6);
}

// NVIDIA/Megatron-LM#299, uw-syfi/piper#13 (the ends' copies of a tied table drift apart).
TEST_CASE("tied ends: after twenty steps both copies are equal, and those of one rank") {
  Config config = bugs::tiny_gpt();
  config.train.steps = 20;
  config.train.global_batch_size = 4;
  bugs::check_meshes(config, {{.pp = 2},
                              {.pp = 2, .schedule = Schedule::kInterleaved, .vpp = 2},
                              {.dp = 2, .pp = 2, .engine = Engine::kZero1},
                              {.tp = 2, .pp = 2, .sequence_parallel = true}});
}

// NVIDIA/Megatron-LM#6500 (the table's shards at the ends have other offsets).
TEST_CASE("tied ends with sharded states and a vocabulary that no rank divides") {
  Config config = bugs::tiny_gpt();
  config.model.vocab = 257;
  for (const Engine engine : {Engine::kZero1, Engine::kZero2, Engine::kZero3}) {
    bugs::check_meshes(config, {{.dp = 2, .pp = 2, .engine = engine},
                                {.dp = 3, .pp = 2, .engine = engine},
                                {.dp = 2, .tp = 2, .pp = 2, .engine = engine}});
  }
}

// hpcaitech/ColossalAI#4348 (an uneven or interleaved model that does not learn).
TEST_CASE("stages of unequal length have the bits of one rank") {
  Config config = bugs::tiny_gpt();
  const engine::ParityRun reference = bugs::run(config);
  for (const std::vector<std::int64_t>& split : {std::vector<std::int64_t>{1, 3}, {3, 1}}) {
    Config here = bugs::on(config, {.pp = 2});
    here.parallel.pipeline_split = split;
    bugs::check_same(bugs::run(here), reference);
  }
  Config here = bugs::on(config, {.pp = 3});
  here.parallel.pipeline_split = {2, 1, 1};
  bugs::check_same(bugs::run(here), reference);
}

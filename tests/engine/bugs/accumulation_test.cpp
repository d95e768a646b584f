// Gradients of several micro-batches: none lost, none scaled again, under any engine and schedule.
#include <doctest/doctest.h>

#include "tests/engine/bugs/bed.h"

using namespace nqd;
using bugs::Mesh;
using planner::Config;
using planner::Engine;
using planner::Schedule;

// deepspeedai/DeepSpeed#7837, PR#6550, allenai/open-instruct#1498 (only the last micro-batch kept,
// or counted with the wrong factor, under some stages alone).
TEST_CASE("zero 0 to 3 by 1, 2 and 4 micro-batches: the weights of one rank") {
  for (const std::int64_t micro_batches : {1, 2, 4}) {
    Config config = bugs::tiny_gpt();
    config.train.global_batch_size = 2 * micro_batches;
    bugs::check_meshes(config, {{.dp = 2},
                                {.dp = 2, .engine = Engine::kZero1},
                                {.dp = 2, .engine = Engine::kZero2},
                                {.dp = 2, .engine = Engine::kZero3}});
  }
}

// pytorch/torchtitan PR#1732 (a pipeline divides what it has accumulated again at every step).
TEST_CASE("a pipeline with three steps of three accumulated groups: the weights of one rank") {
  Config config = bugs::tiny_gpt();
  config.train.global_batch_size = 6;
  bugs::check_meshes(config, {{.pp = 2},
                              {.pp = 2, .schedule = Schedule::kGPipe},
                              {.pp = 2, .schedule = Schedule::kInterleaved, .vpp = 2},
                              {.pp = 2, .schedule = Schedule::kZbH1},
                              {.dp = 2, .pp = 2, .engine = Engine::kZero2},
                              {.dp = 2, .pp = 2, .engine = Engine::kZero3}});
}

// NVIDIA-NeMo/Automodel#3530 (a pipeline that meets another length zeroes what it has).
TEST_CASE("sequences of every length, one after the other through a pipeline") {
  Config config = bugs::tiny_gpt();
  config.train.global_batch_size = 8;
  const auto batch = bugs::ragged(config, {1, 8, 2, 7, 3, 6, 4, 5});
  const bugs::Step reference = bugs::one_step(config, batch);
  for (const Schedule schedule : {Schedule::kGPipe, Schedule::k1F1B, Schedule::kZbH1}) {
    const Config here = bugs::on(config, {.pp = 2, .schedule = schedule});
    INFO(bugs::words(here));
    bugs::check_same(bugs::one_step(here, batch), reference);
  }
}

// deepspeedai/DeepSpeed#1800, #2352, #2768, pytorch#106395 (sums of many gradients in bfloat16),
// whole: 64 equal micro-batches are 64 times one, which a bfloat16 sum misses from the ninth on.
TEST_CASE("many equal micro-batches under bfloat16 add up without loss") {
  Config config = bugs::tiny_gpt();
  config.train.precision = planner::Precision::kBFloat16;
  config.train.global_batch_size = 1;
  const auto one = bugs::ragged(config, {8});
  const bugs::Step single = bugs::one_step(config, one);
  config.train.global_batch_size = 64;
  const std::vector<bugs::Sequence> many(64, one.front());
  for (const Mesh& mesh : {Mesh{}, Mesh{.dp = 4}, Mesh{.dp = 4, .engine = Engine::kZero2}}) {
    const bugs::Step step = bugs::one_step(bugs::on(config, mesh), many);
    for (const auto& [name, values] : single.gradients) {
      INFO(name);
      std::vector<float> scaled;
      for (const float value : values) scaled.push_back(64 * value);
      CHECK(step.gradients.at(name) == scaled);
    }
  }
}

// 16-bit weights and activations; gradients are summed in float32 all the way.
#include <doctest/doctest.h>

#include "tests/engine/bugs/bed.h"

using namespace nqd;
using bugs::Mesh;
using planner::Config;
using planner::Engine;
using planner::Precision;

// deepspeedai/DeepSpeed PR#5154, PR#5170 (stage 0 reduces a bfloat16 copy instead of the float32
// sum).
TEST_CASE("16-bit precisions: zero 0 to 3 have the weights of one rank") {
  for (const Precision precision : {Precision::kBFloat16, Precision::kFloat16}) {
    Config config = bugs::tiny_gpt();
    config.train.precision = precision;
    config.train.global_batch_size = 6;
    bugs::check_meshes(config, {{.dp = 2},
                                {.dp = 3},
                                {.dp = 2, .engine = Engine::kZero1},
                                {.dp = 2, .engine = Engine::kZero2},
                                {.dp = 3, .engine = Engine::kZero3},
                                {.tp = 2, .sequence_parallel = true},
                                {.pp = 2}});
  }
}

TEST_CASE("16-bit gradients are those of float32 up to the rounding of each layer") {
  Config config = bugs::tiny_gpt();
  config.train.global_batch_size = 4;
  const auto batch = bugs::ragged(config, {8, 3, 8, 5});
  const bugs::Step reference = bugs::one_step(config, batch);
  config.train.precision = Precision::kBFloat16;
  bugs::check_close(config, bugs::one_step(config, batch).gradients, reference.gradients, 0x1p-7);
  config.train.precision = Precision::kFloat16;
  bugs::check_close(config, bugs::one_step(config, batch).gradients, reference.gradients, 0x1p-10);
}

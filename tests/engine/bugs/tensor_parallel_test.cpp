// What tensor-parallel ranks share, and what each has a part of.
#include <doctest/doctest.h>

#include "planner/layout/layout.h"
#include "planner/reference/reference_plan.h"
#include "tests/engine/bugs/bed.h"

using namespace nqd;
using bugs::Mesh;
using planner::Config;
using planner::Engine;
using planner::Schedule;

// NVIDIA/Megatron-LM#443, #1446, #474, NVIDIA/TransformerEngine#435, EleutherAI/gpt-neox PR#1257
// (with sequence parallelism every rank has norm gradients of its own rows alone).
TEST_CASE("norms and biases of sequence-parallel ranks stay equal, and those of one rank") {
  for (Config config : {bugs::tiny_gpt(), bugs::tiny_llama()}) {
    config.train.steps = 10;
    config.train.global_batch_size = 4;
    bugs::check_meshes(config, {{.tp = 2},
                                {.tp = 2, .sequence_parallel = true},
                                {.tp = 4, .sequence_parallel = true},
                                {.tp = 2, .pp = 2, .sequence_parallel = true}});
  }
}

// PaddlePaddle/Paddle PR#35186 (the bias of a row-parallel product is added on every rank and then
// summed): with weights of zero the bias is all that a branch adds.
TEST_CASE("the bias of a row-parallel product is added once") {
  Config config = bugs::tiny_gpt();
  config.train.global_batch_size = 2;
  bugs::Tensors weights;
  for (const planner::TensorSpec& tensor : planner::parameters(config.model)) {
    const auto count = static_cast<std::size_t>(tensor.elements());
    if (tensor.name.ends_with(".proj.weight")) weights[tensor.name].assign(count, 0.0F);
    if (!tensor.name.ends_with(".proj.bias")) continue;
    for (std::size_t i = 0; i < count; ++i) {
      weights[tensor.name].push_back(static_cast<float>(i % 5));
    }
  }
  const auto batch = bugs::ragged(config, {8, 8});
  const bugs::Step without = bugs::one_step(config, batch);
  const bugs::Step reference = bugs::one_step(config, batch, 1, weights);
  CHECK(reference.totals.loss_sum != without.totals.loss_sum);
  for (const std::int64_t tp : {2, 4}) {
    for (const bool sequence_parallel : {false, true}) {
      Config here = bugs::on(config, {.tp = tp, .sequence_parallel = sequence_parallel});
      INFO(bugs::words(here));
      bugs::check_same(bugs::one_step(here, batch, 1, weights), reference);
      here.numerics.mode = collectives::Numerics::kFast;
      const bugs::Step fast = bugs::one_step(here, batch, 1, weights);
      CHECK(fast.totals.loss_sum == doctest::Approx(reference.totals.loss_sum).epsilon(1e-6));
    }
  }
}

// bigcode-project/Megatron-LM#11, PR#12 (gradients of shared key and value heads are left out of a
// reduction under a distributed optimizer and with virtual stages).
TEST_CASE("grouped key and value heads with biases: the bits of one rank") {
  Config config = bugs::tiny_gpt();
  config.model.kv_heads = 4;
  config.model.head_dim = 4;
  config.model.hidden = 48;
  bugs::check_meshes(config, {{.tp = 2},
                              {.tp = 4, .sequence_parallel = true},
                              {.dp = 2, .tp = 2, .engine = Engine::kZero1},
                              {.tp = 2, .pp = 2, .schedule = Schedule::kInterleaved, .vpp = 2}});
  // Heads that tp does not divide would be on several ranks: that is not run.
  config.model.kv_heads = 1;
  const auto refusal = planner::engine_refusal(bugs::on(config, {.tp = 2}));
  REQUIRE(refusal);
  CHECK(refusal->what.find("kv_heads") != std::string::npos);
}

// Vocabularies that tensor-parallel ranks cannot divide.
#include <doctest/doctest.h>

#include "tests/engine/bugs/bed.h"

using namespace nqd;
using bugs::Mesh;
using planner::Config;
using planner::Engine;

namespace {

void check(Config config, std::int64_t slices, const std::vector<Mesh>& meshes) {
  config.numerics.tp_slices = slices;
  const engine::ParityRun reference = bugs::run(config);
  for (const Mesh& mesh : meshes) {
    const Config here = bugs::on(config, mesh);
    INFO(bugs::words(here));
    const engine::ParityRun found = bugs::run(here);
    bugs::check_same(found, reference);
    // Padding is nowhere: what comes out is as large as the model's, and the same.
    CHECK(found.weights == reference.weights);
  }
  const auto rows = static_cast<std::size_t>(config.model.vocab);
  const auto width = static_cast<std::size_t>(config.model.hidden);
  CHECK(reference.weights.at("embedding.token").size() == rows * width);
}

}  // namespace

// NVIDIA/Megatron-LM#1754, hpcaitech/ColossalAI#6167, karpathy/nanochat#364,
// NVIDIA-NeMo/Megatron-Bridge#5353 (padded rows are in the loss, padded twice, or in the file).
TEST_CASE("250 and 257 tokens on 2 and 3 tensor-parallel ranks: the bits of one rank") {
  for (const std::int64_t vocab : {250, 257}) {
    for (Config config : {bugs::tiny_gpt(), bugs::tiny_llama()}) {
      config.model.vocab = vocab;
      check(config, 8, {{.tp = 2}, {.tp = 4, .sequence_parallel = true}});
      if (config.model.family == "llama") continue;  // its four key heads are not for three
      check(config, 6, {{.tp = 3}});
      check(config, 12, {{.tp = 3}, {.dp = 2, .tp = 3, .engine = Engine::kZero3}});
    }
  }
}

TEST_CASE("so few tokens that a rank has padding alone") {
  Config config = bugs::tiny_gpt();
  config.model.vocab = 9;
  check(config, 8, {{.tp = 2}, {.tp = 4}, {.dp = 2, .tp = 4, .engine = Engine::kZero2}});
}

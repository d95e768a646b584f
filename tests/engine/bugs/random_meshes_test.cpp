// Small models of any shape on any mesh, drawn at random: each has the numbers of one rank.
// NQD_RANDOM_CASES and NQD_RANDOM_SEED ask for more of them, or others (CONTRIBUTING.md).
#include <doctest/doctest.h>

#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "engine/parity/compare.h"
#include "engine/parity/matrix.h"
#include "planner/reference/reference_plan.h"
#include "tests/engine/bugs/bed.h"

using namespace nqd;
using planner::Config;
using planner::Precision;

namespace {

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : bits_(seed) {}

  std::int64_t between(std::int64_t least, std::int64_t most) {
    return least +
           static_cast<std::int64_t>(bits_() % static_cast<std::uint64_t>(most - least + 1));
  }
  bool one_in(std::int64_t n) { return between(1, n) == 1; }
  template <typename T>
  T of(std::initializer_list<T> choices) {
    return choices.begin()[between(0, static_cast<std::int64_t>(choices.size()) - 1)];
  }

 private:
  std::mt19937_64 bits_;
};

void draw_model(Draw& draw, planner::ModelSpec& model) {
  model.family = draw.of<const char*>({"gpt", "llama"});
  model.layers = draw.between(1, 5);
  model.heads = draw.of<std::int64_t>({1, 2, 3, 4, 6, 8});
  do {
    model.kv_heads = draw.between(1, model.heads);
  } while (model.heads % model.kv_heads != 0);
  model.head_dim = draw.of<std::int64_t>({1, 2, 3, 4, 8});
  model.hidden = draw.one_in(2) ? model.heads * model.head_dim : draw.between(1, 33);
  model.ffn_hidden = draw.one_in(2) ? draw.between(1, 40) : 24;
  model.vocab = draw.one_in(4) ? draw.between(2, 9) : draw.between(10, 300);
  model.sequence = draw.between(1, 17);
  model.tied_head = draw.one_in(2);
  model.gated_mlp = draw.one_in(2);
  model.bias = draw.one_in(2);
  model.qkv_bias = draw.one_in(2);
  model.norm = draw.of({planner::Norm::kLayerNorm, planner::Norm::kRmsNorm});
  model.positions = draw.of({planner::Positions::kLearned, planner::Positions::kRotary});
}

void draw_mesh(Draw& draw, planner::ParallelSpec& mesh) {
  using planner::Engine;
  using planner::Schedule;
  mesh.engine =
      draw.of({Engine::kDdp, Engine::kZero1, Engine::kZero2, Engine::kZero3, Engine::kHsdp});
  do {
    mesh.dp = draw.between(1, 8);
    mesh.tp = draw.of<std::int64_t>({1, 1, 2, 3, 4, 8});
    mesh.pp = draw.of<std::int64_t>({1, 1, 2, 3, 4});
  } while (mesh.ranks() > 8);
  mesh.world_size = mesh.ranks();
  if (mesh.engine == Engine::kHsdp) mesh.hsdp_shard = draw.between(1, mesh.dp);
  mesh.schedule =
      draw.of({Schedule::kGPipe, Schedule::k1F1B, Schedule::kInterleaved, Schedule::kZbH1});
  if (mesh.schedule == Schedule::kInterleaved) mesh.vpp = draw.between(2, 3);
  mesh.sequence_parallel = mesh.tp > 1 && draw.one_in(2);
}

void draw_training(Draw& draw, planner::TrainSpec& train, std::int64_t dp) {
  using planner::OptimizerKind;
  using planner::Recompute;
  train.micro_batch_size = draw.between(1, 3);
  train.global_batch_size = train.micro_batch_size * dp * draw.between(1, 5);
  train.steps = 2;
  train.precision = draw.of(
      {Precision::kFloat32, Precision::kFloat32, Precision::kBFloat16, Precision::kFloat16});
  train.recompute = draw.of({Recompute::kNone, Recompute::kSelective, Recompute::kFull});
  if (train.recompute == Recompute::kFull) train.recompute_every = draw.between(1, 3);
  train.dropout = draw.one_in(2);
  train.ema = draw.one_in(4);
  train.threads = draw.between(1, 3);
  train.eval_batches = draw.between(1, 5);
  train.eval_every = draw.between(0, 2);
  train.bucket_bytes = draw.of<std::int64_t>({1, 1000, 25'000'000});
  train.seed = draw.between(0, 1000);
  train.optimizer.kind = draw.of({OptimizerKind::kAdamW, OptimizerKind::kAdamW, OptimizerKind::kSgd,
                                  OptimizerKind::kSgdMomentum});
  train.optimizer.grad_clip = draw.of({0.0, 1.0});
}

Config draw_config(Draw& draw) {
  Config config = bugs::tiny_gpt();
  draw_model(draw, config.model);
  draw_mesh(draw, config.parallel);
  draw_training(draw, config.train, config.parallel.dp);
  config.cluster.gpus_per_node = config.parallel.ranks();
  config.numerics.tp_slices = draw.of<std::int64_t>({1, 2, 3, 4, 6, 8});
  if (draw.one_in(4)) config.numerics.mode = collectives::Numerics::kFast;
  // The one weight of a softmax over one key has no gradient: those of query and key are what
  // rounding leaves, and AdamW makes full steps of them.
  if (config.numerics.mode == collectives::Numerics::kFast && config.model.sequence == 1) {
    config.model.sequence = 2;
  }
  return config;
}

bool runs(const Config& config) {
  return bugs::violations(config).empty() && !planner::engine_refusal(config);
}

std::string shape_words(const Config& config) {
  const planner::ModelSpec& m = config.model;
  return std::to_string(m.layers) + " layers of " + std::to_string(m.hidden) + ", " +
         std::to_string(m.heads) + "/" + std::to_string(m.kv_heads) + " heads of " +
         std::to_string(m.head_dim) + ", ffn " + std::to_string(m.ffn_hidden) +
         (m.gated_mlp ? " gated" : "") + ", vocab " + std::to_string(m.vocab) +
         (m.tied_head ? " tied" : "") + ", sequence " + std::to_string(m.sequence) + ", " +
         std::string(name(m.norm)) + ", " + std::string(name(m.positions)) + ", slices " +
         std::to_string(config.numerics.tp_slices) + ", " +
         std::string(name(config.numerics.mode)) + ", threads " +
         std::to_string(config.train.threads) + ", shards of " +
         std::to_string(config.parallel.hsdp_shard);
}

}  // namespace

TEST_CASE("models and meshes drawn at random have the numbers of one rank") {
  const std::uint64_t wanted = setting("NQD_RANDOM_CASES", 24);
  Draw draw(setting("NQD_RANDOM_SEED", 1));
  std::uint64_t drawn = 0;
  for (std::uint64_t ran = 0; ran < wanted; ++drawn) {
    const Config config = draw_config(draw);
    if (!runs(config) || config.parallel.ranks() == 1) continue;
    ++ran;
    INFO("draw ", drawn, ": ", shape_words(config), ": ", bugs::words(config));
    const engine::ParityRun reference = bugs::run(engine::reference_of(config));
    REQUIRE(reference.error == "");
    const engine::ParityOutcome outcome = engine::compare({config}, bugs::run(config), reference);
    CHECK(outcome.reason == "");
    CHECK(outcome.verdict != engine::ParityVerdict::kFailed);
  }
}

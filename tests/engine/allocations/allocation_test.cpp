// What a training step takes from the heap: nothing on a rank alone; between ranks what a
// collective's call needs, which does not grow with the model and is given back.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "collectives/world.h"
#include "engine/data/training_data.h"
#include "engine/parity/data.h"
#include "engine/trainer.h"
#include "planner/planner.h"
#include "tests/engine/allocations/counting_new.h"
#include "tests/temporary_folder.h"

using namespace nqd;
using planner::Config;
using planner::Engine;

namespace {

// Layers whose loops over weights are long enough to be divided among threads.
Config tiny() {
  Config config;
  config.source = "test";
  config.model.layers = 2;
  config.model.hidden = 64;
  config.model.heads = 8;
  config.model.ffn_hidden = 256;
  config.model.vocab = 256;
  config.model.sequence = 16;
  config.cluster.preset = "cpu-host";
  config.cluster.gpus_per_node = 1;
  config.train.precision = planner::Precision::kFloat32;
  config.train.gradient_precision = planner::Precision::kFloat32;
  config.train.micro_batch_size = 1;
  config.train.global_batch_size = 6;
  config.train.bucket_bytes = 50'000;
  config.train.steps = 20;
  config.train.eval_batches = 1;
  config.train.optimizer.warmup_steps = 1;
  return config;
}

struct Found {
  std::int64_t calls = 0;
  std::int64_t held = 0;
  std::int64_t largest = 0;
};

// Between the end of step 3 and that of the last but one.
Found measure(const Config& config) {
  const testing::TemporaryFolder folder;
  const Config here = engine::with_generated_data(config, folder.path());
  const engine::TrainingData data = engine::open_training_data(here, true);
  const planner::Plan plan = planner::make_plan(here);
  testing::Allocations before;
  testing::Allocations after;
  const auto rank = [&](collectives::Communicator& world) {
    engine::TrainResult own;
    engine::TrainOptions options;
    if (world.rank() == 0) {
      options.on_step = [&](const engine::StepRecord& step) {
        if (step.step == 3) {
          testing::forget_largest();
          before = testing::allocations();
        }
        if (step.step + 1 == here.train.steps) after = testing::allocations();
      };
    }
    engine::train(world, plan, data, options, own);
  };
  collectives::run_threads(static_cast<int>(here.parallel.ranks()), {}, rank);
  return {after.calls - before.calls, after.held - before.held, after.largest};
}

std::vector<Config> variants(Config config) {
  std::vector<Config> all;
  for (const auto numerics : {collectives::Numerics::kCanonical, collectives::Numerics::kFast}) {
    for (const std::int64_t threads : {1, 2}) {
      config.numerics.mode = numerics;
      config.train.threads = threads;
      all.push_back(config);
    }
  }
  return all;
}

std::string words(const Config& config) {
  const planner::ParallelSpec& mesh = config.parallel;
  return std::string(name(mesh.engine)) + " dp " + std::to_string(mesh.dp) + " tp " +
         std::to_string(mesh.tp) + " pp " + std::to_string(mesh.pp) + ", " +
         std::string(name(config.numerics.mode)) + ", threads " +
         std::to_string(config.train.threads);
}

}  // namespace

TEST_CASE("a step of a rank alone allocates nothing") {
  for (const Config& config : variants(tiny())) {
    const Found found = measure(config);
    INFO(words(config));
    CHECK(found.calls == 0);
    CHECK(found.held == 0);
  }
}

TEST_CASE("between ranks a step allocates what its collectives' calls need, and gives it back") {
  struct Mesh {
    Engine engine = Engine::kDdp;
    std::int64_t dp = 1, tp = 1, pp = 1;
  };
  for (const Mesh& mesh : {Mesh{.dp = 2}, Mesh{Engine::kZero1, 2}, Mesh{Engine::kZero3, 2},
                           Mesh{Engine::kZero3, 3}, Mesh{.tp = 2}, Mesh{.pp = 2}}) {
    Config base = tiny();
    base.parallel.engine = mesh.engine;
    base.parallel.dp = mesh.dp;
    base.parallel.tp = mesh.tp;
    base.parallel.pp = mesh.pp;
    base.parallel.world_size = base.cluster.gpus_per_node = base.parallel.ranks();
    for (const Config& config : variants(base)) {
      const Found found = measure(config);
      INFO(words(config));
      // A queue's block of 512 bytes is the largest. What is held at the two ends of the 16 steps
      // is a matter of chance, as many as the calls under way; 512 bytes a step would not be.
      CHECK(found.largest <= 512);
      CHECK(found.held < 16 * 512);
    }
  }
}

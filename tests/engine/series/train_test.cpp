// Training an encoder: it learns, its audit is exact on every kind of mesh, and the loss is a mean
// over samples while tokens are time steps.
#include <doctest/doctest.h>

#include <cmath>

#include "collectives/world.h"
#include "engine/data/series_dataset.h"
#include "engine/parity/compare.h"
#include "engine/train/preflight.h"
#include "engine/trainer.h"
#include "planner/planner.h"
#include "tests/temporary_folder.h"

using namespace nqd;
using planner::Config;
using planner::Engine;

namespace {

constexpr std::int64_t kClasses = 4;

Config small_encoder(const std::filesystem::path& folder) {
  engine::SynthesizeOptions data;
  data.output = folder / "data";
  data.samples = 160;
  data.regions = 5;
  data.classes = kClasses;
  data.steps = 16;
  engine::synthesize_crops(data);

  Config c;
  c.source = "test";
  c.model.family = "timeseries";
  c.model.layers = 4;
  c.model.hidden = 32;
  c.model.heads = c.model.kv_heads = 4;
  c.model.head_dim = 8;
  c.model.ffn_hidden = 64;
  c.model.sequence = 16;
  c.model.input_features = 18;
  c.model.output_features = kClasses;
  c.model.causal = c.model.tied_head = false;
  c.cluster.preset = "cpu-host";
  c.data.path = data.output.string();
  c.train.precision = c.train.gradient_precision = planner::Precision::kFloat32;
  c.train.micro_batch_size = 2;
  c.train.global_batch_size = 16;
  c.train.steps = 2;
  c.train.eval_batches = 2;
  c.train.bucket_bytes = 10'000;
  c.train.optimizer.warmup_steps = 1;
  c.train.optimizer.learning_rate = 3e-3;
  return c;
}

engine::TrainResult run(Config config) {
  config.parallel.world_size = config.parallel.ranks();
  config.cluster.gpus_per_node = config.parallel.ranks();
  for (const Diagnostic& found : planner::check_mesh(config)) {
    REQUIRE_MESSAGE(found.severity != Severity::kError, found.message);
  }
  engine::check_trainable(config);
  const engine::TrainingData data = engine::open_training_data(config, true);
  const planner::Plan plan = planner::make_plan(config);
  engine::TrainResult result;
  collectives::run_threads(static_cast<int>(config.parallel.ranks()), {},
                           [&](collectives::Communicator& world) {
                             engine::TrainResult own;
                             engine::train(world, plan, data, {}, own);
                             if (world.rank() == 0) result = std::move(own);
                           });
  for (const engine::AuditRow& row : result.audit) {
    if (!row.exact) continue;
    INFO(row.category, ": predicted ", row.predicted, ", measured ", row.measured);
    CHECK(row.ok);
  }
  return result;
}

}  // namespace

TEST_CASE("an encoder's loss is a mean over samples, its tokens are time steps") {
  const testing::TemporaryFolder folder;
  const engine::TrainResult result = run(small_encoder(folder.path()));
  CHECK(result.data_synthetic);
  REQUIRE(result.steps.size() == 2);
  CHECK(result.steps[0].tokens == 16 * 16);
  CHECK(result.steps[0].loss == doctest::Approx(std::log(kClasses)).epsilon(0.1));
  REQUIRE_FALSE(result.evals.empty());
  CHECK(result.evals[0].tokens == 4 * 16);
  CHECK(result.evals[0].loss == doctest::Approx(std::log(kClasses)).epsilon(0.1));
}

TEST_CASE("an encoder has the same bits and an exact audit on every kind of mesh") {
  const testing::TemporaryFolder folder;
  const Config base = small_encoder(folder.path());
  const engine::TrainResult reference = run(base);
  const auto check = [&](auto change) {
    Config config = base;
    change(config);
    INFO(name(config.parallel.engine), " dp ", config.parallel.dp, " tp ", config.parallel.tp,
         " pp ", config.parallel.pp);
    const engine::TrainResult result = run(config);
    CHECK(result.weights_sha256 == reference.weights_sha256);
    CHECK(result.steps[1].loss == reference.steps[1].loss);
    CHECK(result.steps[1].grad_norm == reference.steps[1].grad_norm);
    CHECK(result.evals.back().loss == reference.evals.back().loss);
  };
  check([](Config& c) {
    c.parallel.dp = 4;
    c.parallel.engine = Engine::kZero3;
    c.train.recompute = planner::Recompute::kFull;
  });
  check([](Config& c) {
    c.parallel.dp = 2;
    c.parallel.pp = 2;
    c.parallel.engine = Engine::kZero2;
    c.parallel.schedule = planner::Schedule::kZbH1;
  });
  check([](Config& c) {
    c.parallel.dp = 2;
    c.parallel.tp = 2;
    c.parallel.sequence_parallel = true;
    c.parallel.engine = Engine::kZero1;
  });
}

TEST_CASE("an encoder learns crops below half the entropy of their frequencies") {
  const testing::TemporaryFolder folder;
  Config config = small_encoder(folder.path());
  config.train.steps = 200;
  config.train.optimizer.learning_rate = 1e-2;
  config.train.micro_batch_size = 8;
  const engine::TrainResult result = run(config);
  CHECK(result.steps.back().loss < 0.4 * std::log(kClasses));
  CHECK(result.evals.back().loss < 0.75 * std::log(kClasses));
}

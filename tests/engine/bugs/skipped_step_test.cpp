// Steps whose gradients overflow, on one rank alone.
#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/error.h"
#include "collectives/world.h"
#include "engine/train/loss_scale.h"
#include "engine/trainer.h"
#include "planner/planner.h"
#include "tests/engine/bugs/bed.h"
#include "tests/temporary_folder.h"

using namespace nqd;
using bugs::Mesh;
using engine::LossScale;
using planner::Config;
using planner::Engine;
using planner::Precision;

namespace {

constexpr std::int64_t kSamples = 144;  // whatever the number of steps

Config tiny(std::int64_t steps) {
  Config config = bugs::tiny_gpt();
  config.train.steps = steps;
  config.train.optimizer.schedule = planner::RateSchedule::kConstant;
  config.train.optimizer.min_learning_rate = config.train.optimizer.learning_rate;
  return config;
}

// Of rank 0; the gradients of the last rank overflow in steps [first, last].
engine::TrainResult run(const Config& config, std::int64_t first, std::int64_t last) {
  const testing::TemporaryFolder folder;
  const engine::TrainingData data = bugs::make_data(folder.path(), config, kSamples);
  const planner::Plan plan = planner::make_plan(config);
  engine::TrainOptions options;
  options.seeded.first_overflow = first;
  options.seeded.last_overflow = last;
  engine::TrainResult result;
  collectives::run_threads(static_cast<int>(config.parallel.ranks()), {},
                           [&](collectives::Communicator& world) {
                             engine::TrainResult own;
                             engine::train(world, plan, data, options, own);
                             if (world.rank() == 0) result = std::move(own);
                           });
  return result;
}

std::string failure(const Config& config, std::int64_t first) {
  try {
    run(config, first, config.train.steps);
  } catch (const Error& error) {
    CHECK(error.code() == "NQD4006");
    CHECK(error.exit_code() == ExitCode::kFault);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a step that overflows on one rank is skipped by all, and has no effect") {
  for (const Precision precision : {Precision::kFloat32, Precision::kFloat16}) {
    Config config = tiny(6);
    config.train.precision = precision;
    const engine::TrainResult reference = run(config, 3, 4);
    REQUIRE(reference.steps.size() == 6);
    CHECK(reference.skipped_steps == 2);
    CHECK(reference.steps.back().loss < reference.steps.front().loss);
    for (const Mesh& mesh :
         {Mesh{.dp = 2}, Mesh{.tp = 2}, Mesh{.pp = 2}, Mesh{.dp = 2, .engine = Engine::kZero1},
          Mesh{.dp = 3, .engine = Engine::kZero3},
          Mesh{.dp = 2, .tp = 2, .pp = 2, .engine = Engine::kZero2}}) {
      const Config here = bugs::on(config, mesh);
      INFO(bugs::words(here));
      const engine::TrainResult found = run(here, 3, 4);
      REQUIRE(found.steps.size() == 6);
      CHECK(found.skipped_steps == 2);
      for (std::size_t i = 0; i < 6; ++i) {
        CAPTURE(i);
        CHECK(found.steps[i].skipped == (i == 2 || i == 3));
        CHECK(found.steps[i].loss == reference.steps[i].loss);
        CHECK(found.steps[i].grad_norm == reference.steps[i].grad_norm);
      }
      CHECK(found.weights_sha256 == reference.weights_sha256);
    }
  }
}

TEST_CASE("a skipped step leaves the weights as they were") {
  for (const Mesh& mesh : {Mesh{}, Mesh{.dp = 2, .engine = Engine::kZero3}, Mesh{.tp = 2}}) {
    const engine::TrainResult before = run(bugs::on(tiny(2), mesh), 0, 0);
    const engine::TrainResult after = run(bugs::on(tiny(3), mesh), 3, 3);
    CHECK(after.skipped_steps == 1);
    CHECK(after.weights_sha256 == before.weights_sha256);
    CHECK(run(bugs::on(tiny(3), mesh), 0, 0).weights_sha256 != before.weights_sha256);
  }
}

TEST_CASE("too many skipped steps name the first tensor, layer and rank") {
  const auto said = [](const Mesh& mesh) { return failure(bugs::on(tiny(12), mesh), 3); };
  const auto has = [](const std::string& text, const std::string& part) {
    CHECK_MESSAGE(text.find(part) != std::string::npos, text);
  };
  // Eight in a row from the third on.
  has(said({}), "step 10: ");
  has(said({}), "first in embedding.token, element 0 on rank 0");
  has(said({.dp = 2}), "first in embedding.token, element 0 on rank 0");
  // The second half of the vocabulary, 32 rows of 24, is the other rank's.
  has(said({.tp = 2}), "first in embedding.token, element 768 on rank 1");
  // Of four layers the second stage has the last two. (The first has what the ends of a tied head
  // add up.)
  Config stages = bugs::on(tiny(12), {.pp = 2});
  stages.model.tied_head = false;
  has(failure(stages, 3), "first in layers.2.attention.qkv.weight, element 0 on rank 1");
  has(said({.dp = 2, .engine = Engine::kZero3}), "first in embedding.token, element 0 on rank 0");
}

TEST_CASE("the loss scale of float16 halves after an overflow and doubles after 2000 good steps") {
  LossScale scale(Precision::kFloat16);
  CHECK(scale.value() == 256);
  for (int i = 1; i < LossScale::kGrowAfter; ++i) scale.update(false);
  CHECK(scale.value() == 256);
  CHECK(scale.good_steps() == 1999);
  scale.update(false);
  CHECK(scale.value() == 512);
  CHECK(scale.good_steps() == 0);
  scale.update(false);
  scale.update(true);
  CHECK(scale.value() == 256);
  CHECK(scale.good_steps() == 0);
}

TEST_CASE("the loss scale goes on from what was saved, and stays within its limits") {
  LossScale scale(Precision::kFloat16);
  scale.restore(1024, LossScale::kGrowAfter - 1);
  scale.update(false);
  CHECK(scale.value() == 2048);
  for (int i = 0; i < 100; ++i) scale.update(true);
  CHECK(scale.value() == 0x1p-16F);
  scale.restore(0x1p24F, LossScale::kGrowAfter - 1);
  scale.update(false);
  CHECK(scale.value() == 0x1p24F);
  CHECK(scale.good_steps() == 0);
}

TEST_CASE("other precisions have no loss scale") {
  for (const Precision precision : {Precision::kFloat32, Precision::kBFloat16}) {
    LossScale scale(precision);
    for (int i = 0; i < 2 * LossScale::kGrowAfter; ++i) scale.update(false);
    CHECK(scale.value() == 1);
    scale.update(true);
    CHECK(scale.value() == 1);
  }
}

// Which runs a campaign consists of, and real ones on threads.
#include "engine/scale/campaign.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/host.h"
#include "engine/data/training_data.h"
#include "engine/parity/data.h"
#include "engine/scale/figures.h"
#include "engine/train/on_threads.h"
#include "tests/temporary_folder.h"

using namespace nqd;
using engine::ScaleOptions;
using engine::ScaleRegime;
using engine::ScaleTask;

namespace {

ScaleOptions options_of(std::vector<std::int64_t> ranks, std::vector<std::string> overrides = {}) {
  ScaleOptions options;
  options.config = std::string(NQD_SOURCE_DIR) + "/configs/parity/gpt-tied.yaml";
  options.overrides = std::move(overrides);
  options.ranks = std::move(ranks);
  options.regimes = {ScaleRegime::kEqualGlobalBatch, ScaleRegime::kEqualLocalBatch};
  options.warmup = 1;
  options.steps = 2;
  options.seeds = 2;
  return options;
}

planner::LoadedConfig base_of(const ScaleOptions& options) {
  return planner::load_config(options.config, {options.overrides, ""});
}

std::vector<ScaleTask> tasks_of(const ScaleOptions& options) {
  return scale_tasks(options, base_of(options));
}

}  // namespace

TEST_CASE("a task for each regime and count of ranks; the base of both is one run") {
  const auto tasks = tasks_of(options_of({1, 2, 4}, {"parallel.engine=zero3"}));
  REQUIRE(tasks.size() == 6);
  std::vector<std::string> seen;
  for (const ScaleTask& task : tasks) {
    const engine::ScalePoint& point = task.point;
    seen.push_back(std::string(name(point.regime)).substr(6, 5) + " " + point.engine + " " +
                   point.mesh + " " + std::to_string(point.global_batch));
    CHECK(point.tokens == point.global_batch * 16);
    CHECK(task.plan.config.train.steps == 3);
    CHECK(point.oversubscribed == (point.ranks > read_host_info().usable_cpus));
  }
  CHECK(seen == std::vector<std::string>{"globa ddp 1x1x1 24", "globa zero3 2x1x1 24",
                                         "globa zero3 4x1x1 24", "local ddp 1x1x1 24",
                                         "local zero3 2x1x1 48", "local zero3 4x1x1 96"});
  CHECK(tasks[3].same_as == 0);
  CHECK_FALSE(tasks[4].same_as.has_value());
}

TEST_CASE("tp and pp of the config stay, and dp grows") {
  const auto tasks =
      tasks_of(options_of({4, 8}, {"parallel.tp=2", "parallel.pp=2", "cluster.gpus_per_node=4"}));
  CHECK(tasks[0].point.mesh == "1x2x2");
  CHECK(tasks[1].point.mesh == "2x2x2");
  CHECK(tasks[3].point.global_batch == 48);
}

TEST_CASE("ranks times threads beyond the CPUs are oversubscribed") {
  const std::int64_t cpus = read_host_info().usable_cpus;
  const auto tasks = tasks_of(options_of({1}, {"train.threads=" + std::to_string(cpus + 1)}));
  CHECK(tasks[0].point.oversubscribed);
}

TEST_CASE("every count that cannot run is named with its rule before anything runs") {
  try {
    tasks_of(options_of({1, 5, 7}));
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.code() == "NQD1410");
    CHECK(error.exit_code() == ExitCode::kNo);
    const std::string text = error.what();
    CHECK(text.find("5 ranks, equal-global-batch: NQD12") != std::string::npos);
    CHECK(text.find("7 ranks, equal-global-batch: NQD12") != std::string::npos);
    CHECK(text.find("equal-local-batch") == std::string::npos);
    CHECK(text.find("\n  1 ranks") == std::string::npos);
  }
}

TEST_CASE("real runs: the same bits from an equal global batch, and not with a broken engine") {
  const nqd::testing::TemporaryFolder folder;
  ScaleOptions options = options_of({1, 2});
  const planner::Config generated =
      engine::with_generated_data(base_of(options).config, folder.path());
  options.overrides.push_back("data.path=" + generated.data.path);
  const planner::LoadedConfig base = base_of(options);
  for (const auto mutant : {engine::Mutant::kNone, engine::Mutant::kMissingSum}) {
    std::vector<std::string> order;
    const auto runner = [&](const ScaleTask& task, std::int64_t seed) {
      planner::Plan plan = task.plan;
      plan.config.train.seed = seed;
      engine::TrainOptions train;
      train.seeded.mutant = mutant;
      return engine::train_on_threads(plan, engine::open_training_data(plan.config, true), train);
    };
    const engine::ScaleResult result = run_scale(
        options, base.config, scale_tasks(options, base), runner,
        [&](const engine::ScalePoint& point, std::int64_t seed) {
          order.push_back(std::to_string(seed) + ":" + std::to_string(point.global_batch));
        });
    CHECK(order == std::vector<std::string>{"1234:24", "1234:24", "1234:48", "1235:24", "1235:24",
                                            "1235:48"});
    REQUIRE(result.points.size() == 4);
    for (const engine::ScalePoint& point : result.points) {
      REQUIRE(point.runs.size() == 2);
      CHECK(point.runs[0].step_s.size() == 3);
      CHECK(point.runs[0].seed == 1234);
    }
    CHECK(result.points[2].runs[1].weights_sha256 == result.points[0].runs[1].weights_sha256);
    CHECK(result.data_digest.size() == 64);
    const auto figures = scale_figures(result);
    CHECK(figures[1].quality->ok == (mutant == engine::Mutant::kNone));
  }
}

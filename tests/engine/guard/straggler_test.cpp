#include "engine/train/stragglers.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "collectives/world.h"
#include "engine/checkpoint/generations.h"
#include "tests/engine/guard/guarded_run.h"

using namespace nqd;
using engine::Phase;
using engine::PhaseSummary;
using engine::SlowRank;
using testing::is_exact;
using testing::Mesh;
using testing::run;
using testing::Scratch;

namespace {

constexpr double kLimit = 6;

// 100 units of work a step.
PhaseSummary usual() { return {{1, 30, 60, 9}, {0.1, 0.2, 0.3, 0.1}}; }

PhaseSummary with(Phase phase, double seconds) {
  PhaseSummary summary = usual();
  summary.medians[static_cast<std::size_t>(phase)] = seconds;
  return summary;
}

std::vector<SlowRank> find(const std::vector<PhaseSummary>& ranks,
                           const std::vector<std::int64_t>& stages,
                           const std::vector<PhaseSummary>& first = {}) {
  return engine::find_slow_ranks(ranks, first.empty() ? ranks : first, stages, kLimit);
}

planner::Config watched(const Mesh& mesh) {
  planner::Config config = testing::tiny(mesh);
  // Far above what other work on the machine makes of a thread's median.
  config.guard.straggler_score = 30;
  config.guard.window = 3;
  return config;
}

engine::SeededFault slow(int rank, Phase phase) {
  engine::SeededFault fault;
  fault.slow_rank = rank;
  fault.slow_phase = phase;
  fault.slow_s = 0.05;
  return fault;
}

}  // namespace

TEST_CASE("phases of a window are summed up by median and spread") {
  const PhaseSummary summary =
      engine::summarize_phases({{1, 5, 2, 0}, {1, 6, 2, 0}, {1, 7, 90, 0}});
  CHECK(summary.medians == engine::PhaseTimes{1, 6, 2, 0});
  CHECK(summary.spreads == engine::PhaseTimes{0, 1.4826, 0, 0});
  CHECK(summary.work() == 9);
}

TEST_CASE("of four ranks the slow one is named with its phase, and nobody when all are alike") {
  std::vector<PhaseSummary> ranks(4, usual());
  const std::vector<std::int64_t> stages(4, 0);
  CHECK(find(ranks, stages).empty());
  // The floor is 2 % of 100: six of them are 12.
  ranks[2] = with(Phase::kBackward, 71.9);
  CHECK(find(ranks, stages).empty());
  ranks[2] = with(Phase::kBackward, 80);
  const auto slow = find(ranks, stages);
  REQUIRE(slow.size() == 1);
  CHECK(slow[0].rank == 2);
  CHECK(slow[0].phase == Phase::kBackward);
  CHECK(slow[0].seconds == 80);
  CHECK(slow[0].usual_s == 60);
  CHECK(slow[0].score == doctest::Approx(10));
  // Ten times as long, but nothing of a step.
  ranks[2] = with(Phase::kData, 10);
  CHECK(find(ranks, stages).empty());
  // Where the others are apart themselves, it takes more.
  ranks = {usual(), with(Phase::kBackward, 70), with(Phase::kBackward, 80),
           with(Phase::kBackward, 100)};
  CHECK(find(ranks, stages).empty());
}

TEST_CASE("of two ranks the slower one is named when it takes 30 % of a step longer") {
  std::vector<PhaseSummary> ranks(2, usual());
  ranks[0] = with(Phase::kForward, 59.9);
  CHECK(find(ranks, {0, 0}).empty());
  ranks[0] = with(Phase::kForward, 60.1);
  const auto slow = find(ranks, {0, 0});
  REQUIRE(slow.size() == 1);
  CHECK(slow[0].rank == 0);
  CHECK(slow[0].phase == Phase::kForward);
  // Steps of the other that vary so much are no measure.
  ranks[1].spreads[static_cast<std::size_t>(Phase::kForward)] = 10;
  CHECK(find(ranks, {0, 0}).empty());
}

TEST_CASE("stages of a pipeline are not compared; the only rank of one is, with its own past") {
  const std::vector<PhaseSummary> first = {usual(), with(Phase::kForward, 300)};
  std::vector<PhaseSummary> ranks = first;
  CHECK(find(ranks, {0, 1}, first).empty());
  ranks[0] = with(Phase::kForward, 61);
  const auto slow = find(ranks, {0, 1}, first);
  REQUIRE(slow.size() == 1);
  CHECK(slow[0].rank == 0);
  CHECK(slow[0].usual_s == 30);
  // Two of each stage: the others of the stage count.
  CHECK(find({ranks[0], ranks[1], ranks[0], ranks[1]}, {0, 1, 0, 1}, first).empty());
}

TEST_CASE("a rank that sleeps in a phase is named; the exchange of times is planned traffic") {
  for (const Phase phase : {Phase::kData, Phase::kForward, Phase::kBackward}) {
    CAPTURE(std::string(engine::name(phase)));
    testing::RunOptions options;
    options.seeded = slow(1, phase);
    const engine::TrainResult result = run(watched({planner::Engine::kDdp, 2}), options);
    REQUIRE(result.stragglers.size() == 1);  // named once, though it stays slow
    const engine::StragglerRecord& found = result.stragglers.front();
    CHECK(found.step == 9);  // the end of the third window
    CHECK(found.rank == 1);
    CHECK(found.phase == engine::name(phase));
    CHECK(found.seconds > 0.1);  // two micro-batches
    CHECK(found.score > 30);
    CHECK(is_exact(result));
  }
}

TEST_CASE("a rank is named when it is slow in three windows in a row, once") {
  planner::Config config = testing::tiny({planner::Engine::kDdp, 2});
  config.guard.straggler_score = kLimit;
  config.guard.window = 2;
  const std::vector<bool> slow = {true, true, false, true, true, true, true, false, true, true};
  std::vector<std::int64_t> named;
  collectives::run_threads(2, {}, [&](collectives::Communicator& world) {
    engine::StragglerMonitor monitor(config, world);
    for (std::int64_t step = 1; step <= 20; ++step) {
      const bool now = world.rank() == 1 && slow[static_cast<std::size_t>((step - 1) / 2)];
      const auto found = monitor.note(step, {1, 30, now ? 95.0 : 60.0, 9});
      if (found.empty() || world.rank() != 0) continue;
      CHECK(found.size() == 1);
      CHECK(found[0].rank == 1);
      CHECK(found[0].phase == "backward");
      CHECK(found[0].seconds == 95);
      CHECK(found[0].median_s == 60);
      named.push_back(step);
    }
  });
  CHECK(named == std::vector<std::int64_t>{12});
}

TEST_CASE("a run without a slow rank names nobody and has the bits of one that does not look") {
  const engine::TrainResult blind = run(testing::tiny({planner::Engine::kZero3, 2}), {});
  const engine::TrainResult result = run(watched({planner::Engine::kZero3, 2}), {});
  CHECK(result.stragglers.empty());
  CHECK(result.weights_sha256 == blind.weights_sha256);
  CHECK(is_exact(result));
}

TEST_CASE("a run stops for a slow rank where it is told to, behind a save") {
  Scratch scratch;
  planner::Config config = watched({planner::Engine::kDdp, 2});
  config.guard.straggler_stop = true;
  const std::filesystem::path folder = scratch.folder();
  testing::RunOptions options{folder};
  options.seeded = slow(0, Phase::kForward);
  const engine::TrainResult result = run(config, options);
  CHECK(result.stopped);
  CHECK(result.steps.back().step == 9);
  CHECK(is_exact(result));
  const auto saved = engine::find_generation(engine::disk(), folder);
  CHECK(saved->folder.filename().string().find("step-000000000009-") == 0);
}

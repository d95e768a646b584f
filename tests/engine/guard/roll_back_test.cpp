#include <doctest/doctest.h>

#include <atomic>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/checkpoint/generations.h"
#include "engine/checkpoint/reader.h"
#include "tests/engine/guard/guarded_run.h"

using namespace nqd;
using testing::is_exact;
using testing::Mesh;
using testing::run;
using testing::RunOptions;
using testing::Scratch;
using testing::tiny;

namespace {

// Batches 7 to 10 are bad: a run that saved after step 4 gives up after step 10, goes back to 4
// and reads batch 11 in step 5.
engine::SeededFault bad_batches() {
  engine::SeededFault fault;
  fault.poisoned = {7, 10, false};
  return fault;
}

engine::RunState newest_state(const std::filesystem::path& folder) {
  const auto found = engine::find_generation(engine::disk(), folder);
  return engine::CheckpointReader(engine::disk(), found->folder).manifest().state;
}

// Makes the newest generation one whose run has skipped batches.
void set_offset(const std::filesystem::path& folder, std::int64_t offset) {
  const auto found = engine::find_generation(engine::disk(), folder);
  engine::Manifest manifest = engine::CheckpointReader(engine::disk(), found->folder).manifest();
  manifest.state.data_offset = offset;
  engine::publish(engine::disk(), folder, manifest);
}

// Flips a bit in the first file of the generation of a step.
void damage(const std::filesystem::path& folder, std::int64_t step) {
  for (const engine::GenerationInfo& one : engine::list_generations(engine::disk(), folder)) {
    if (one.step != step) continue;
    std::fstream file(folder / one.name / "rank-00000.safetensors",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(5000);
    const int byte = file.get();
    file.seekp(5000);
    file.put(static_cast<char>(byte ^ 16));
    REQUIRE(file.good());
  }
}

std::string run_of(const std::string& generation) {
  return generation.substr(generation.rfind('-'));
}

void check_rolled_back(const engine::TrainResult& result) {
  REQUIRE(result.roll_backs.size() == 1);
  const engine::RollBackRecord& back = result.roll_backs.front();
  CHECK(back.at_step == 10);
  CHECK(back.to_step == 4);
  CHECK(back.skipped_batches == 6);
  CHECK(back.generation.find("step-000000000004-") == 0);
  CHECK(back.reason.find("the gradient norm is not finite, first in ") == 0);
  CHECK(result.skipped_steps == 0);
  CHECK(result.steps.back().step == 12);
  CHECK(is_exact(result));
}

Error failure_of(const planner::Config& config, const RunOptions& options) {
  try {
    run(config, options);
  } catch (const Error& error) {
    return error;
  }
  return {ExitCode::kOk, "", "trained on"};
}

}  // namespace

TEST_CASE("after a roll-back a run is the one that never had the batches") {
  Scratch scratch;
  const engine::TrainResult rolled = run(tiny(), {scratch.folder(), false, bad_batches()});
  check_rolled_back(rolled);
  CHECK(rolled.evals.size() == 4);  // behind steps 0, 5, 10, 12, each once

  // Another run is stopped after step 4 and told to leave these batches out.
  const std::filesystem::path folder = scratch.folder();
  RunOptions until_4{folder};
  until_4.stops = [](std::int64_t steps, std::int64_t) { return steps + 1 >= 4; };
  CHECK(run(tiny(), until_4).stopped);
  set_offset(folder, 6);
  const engine::TrainResult told = run(tiny(), {folder, true});
  CHECK(told.weights_sha256 == rolled.weights_sha256);
  CHECK(told.noise_scale == rolled.noise_scale);
  REQUIRE(told.steps.size() == 8);
  for (std::size_t i = 0; i < 8; ++i) {
    CHECK(told.steps[i].loss == rolled.steps[i + 4].loss);
    CHECK(told.steps[i].grad_norm == rolled.steps[i + 4].grad_norm);
    CHECK(told.steps[i].lr == rolled.steps[i + 4].lr);
  }
  CHECK(run(tiny(), {scratch.folder()}).weights_sha256 != rolled.weights_sha256);
}

TEST_CASE("steps behind a roll-back read the batches behind the last bad one") {
  Scratch scratch;
  planner::Config config = tiny();
  // The weights stand still, so that a loss names its batch.
  config.train.optimizer.learning_rate = 0;
  config.train.optimizer.min_learning_rate = 0;
  const engine::TrainResult rolled = run(config, {scratch.folder(), false, bad_batches()});
  config.train.steps = 18;
  const engine::TrainResult all = run(config, {scratch.folder()});
  for (std::size_t step = 1; step <= 12; ++step) {
    CAPTURE(step);
    CHECK(rolled.steps[step - 1].loss == all.steps[(step <= 4 ? step : step + 6) - 1].loss);
  }
}

TEST_CASE("every mesh rolls back to the same bits, and its audit counts the steps made again") {
  Scratch scratch;
  const std::string reference =
      run(tiny(), {scratch.folder(), false, bad_batches()}).weights_sha256;
  using planner::Engine;
  for (const Mesh& mesh :
       {Mesh{Engine::kDdp, 2}, Mesh{Engine::kZero1, 2}, Mesh{Engine::kZero3, 2},
        Mesh{Engine::kDdp, 1, 1, 2}, Mesh{Engine::kDdp, 1, 2, 1}, Mesh{Engine::kDdp, 1, 1, 1, 2}}) {
    CAPTURE(std::string(planner::name(mesh.engine)) + " dp " + std::to_string(mesh.dp) + " tp " +
            std::to_string(mesh.tp) + " pp " + std::to_string(mesh.pp));
    const engine::TrainResult result = run(tiny(mesh), {scratch.folder(), false, bad_batches()});
    check_rolled_back(result);
    CHECK(result.weights_sha256 == reference);
  }
}

TEST_CASE("a run resumed behind its roll-back goes on past the same batches, on another mesh") {
  Scratch scratch;
  const std::string reference =
      run(tiny(), {scratch.folder(), false, bad_batches()}).weights_sha256;
  const std::filesystem::path folder = scratch.folder();
  RunOptions first{folder, false, bad_batches()};
  first.stops = [](std::int64_t steps, std::int64_t roll_backs) {
    return roll_backs == 1 && steps + 1 >= 7;
  };
  const engine::TrainResult stopped = run(tiny({planner::Engine::kZero3, 2}), first);
  CHECK(stopped.stopped);
  CHECK(is_exact(stopped));
  CHECK(newest_state(folder).step == 7);
  CHECK(newest_state(folder).data_offset == 6);
  CHECK(newest_state(folder).roll_backs == 1);
  const engine::TrainResult resumed =
      run(tiny({planner::Engine::kDdp, 1, 1, 2}), {folder, true, bad_batches()});
  CHECK(resumed.roll_backs.empty());
  CHECK(resumed.weights_sha256 == reference);
  CHECK(newest_state(folder).data_offset == 6);

  // From a generation before the bad batches it makes the same roll-back again, to where it began.
  const std::filesystem::path earlier = scratch.folder();
  RunOptions until_4{earlier};
  until_4.stops = [](std::int64_t steps, std::int64_t) { return steps + 1 >= 4; };
  run(tiny(), until_4);
  const engine::TrainResult again =
      run(tiny({planner::Engine::kZero1, 2}), {earlier, true, bad_batches()});
  check_rolled_back(again);
  CHECK(again.resumed_after == 4);
  CHECK(again.weights_sha256 == reference);
}

TEST_CASE("a run ends when it may not go back, has nothing to go back to, or did so too often") {
  Scratch scratch;
  RunOptions options{scratch.folder(), false, bad_batches()};
  engine::TrainResult so_far;
  options.so_far = &so_far;
  planner::Config config = tiny({planner::Engine::kDdp, 2});
  SUBCASE("it may not") {
    config.guard.roll_back = false;
    config.guard.max_skips = 3;
    const Error error = failure_of(config, options);
    CHECK(error.code() == "NQD4006");
    CHECK(error.exit_code() == ExitCode::kFault);
    CHECK(std::string(error.what()).find("the weights of step 6 were the last good ones") !=
          std::string::npos);
    CHECK(so_far.steps.size() == 9);
    CHECK(error.hint().find("guard.roll_back") != std::string::npos);
  }
  SUBCASE("nothing was saved") {
    config.checkpoint.every = 11;
    const Error error = failure_of(config, options);
    CHECK(error.code() == "NQD4006");
    CHECK(error.hint().find("checkpoint.every") != std::string::npos);
  }
  SUBCASE("too often") {
    options.seeded.poisoned.last = 1000;
    config.guard.max_roll_backs = 2;
    const Error error = failure_of(config, options);
    CHECK(error.code() == "NQD4006");
    CHECK(std::string(error.what()).find("after 2 roll-backs") != std::string::npos);
    REQUIRE(so_far.roll_backs.size() == 2);
    // Behind the first, batch 11 is step 5's.
    CHECK(so_far.roll_backs[1].at_step == 8);
    CHECK(so_far.roll_backs[1].to_step == 4);
    CHECK(so_far.roll_backs[1].skipped_batches == 4);
    CHECK(so_far.steps.size() == 8);
  }
}

TEST_CASE("a damaged generation is not gone back to: an older one is") {
  Scratch scratch;
  // Saved after steps 4 and 8; batches 9 to 12 are bad.
  planner::Config config = tiny();
  config.train.steps = 20;
  config.checkpoint.async = false;
  RunOptions options{scratch.folder()};
  options.seeded.poisoned = {9, 12, false};

  SUBCASE("the run goes on from it under names of its own") {
    options.stops = [&](std::int64_t steps, std::int64_t roll_backs) {
      if (steps == 10 && roll_backs == 0) damage(options.folder, 8);
      return false;
    };
    const engine::TrainResult rolled = run(config, options);
    REQUIRE(rolled.roll_backs.size() == 1);
    const engine::RollBackRecord& back = rolled.roll_backs.front();
    CHECK(back.at_step == 12);
    CHECK(back.to_step == 4);
    CHECK(back.skipped_batches == 8);
    CHECK(back.reason.find("; cannot go back to ") != std::string::npos);
    CHECK(back.reason.find("rank-00000.safetensors: bytes 0 to ") != std::string::npos);
    CHECK(is_exact(rolled));
    const auto left = engine::list_generations(engine::disk(), options.folder);
    REQUIRE(left.size() == 2);
    CHECK(left[0].step == 16);
    CHECK(left[1].step == 20);
    CHECK(left[1].lineage == std::vector{back.generation});
    CHECK(run_of(left[1].name) == run_of(left[0].name));
    CHECK(run_of(left[1].name) != run_of(back.generation));

    // As a run that is stopped after step 4 and told to leave these batches out.
    RunOptions until_4{scratch.folder()};
    until_4.stops = [](std::int64_t steps, std::int64_t) { return steps + 1 >= 4; };
    CHECK(run(config, until_4).stopped);
    set_offset(until_4.folder, 8);
    CHECK(run(config, {until_4.folder, true}).weights_sha256 == rolled.weights_sha256);
  }
  SUBCASE("none is left") {
    config.parallel.dp = config.cluster.gpus_per_node = 2;
    std::atomic<int> asked{0};
    options.stops = [&](std::int64_t steps, std::int64_t) {
      if (steps == 10 && asked++ == 0) {
        damage(options.folder, 4);
        damage(options.folder, 8);
      }
      return false;
    };
    const Error error = failure_of(config, options);
    const std::string what = error.what();
    CHECK(error.code() == "NQD4006");
    CHECK(error.exit_code() == ExitCode::kFault);
    CHECK(what.find("step-000000000008-") < what.find("step-000000000004-"));
    CHECK(what.find("step-000000000004-") < what.find("no generation is left to go back to"));
    CHECK(error.hint().find("checkpoint.durable_path") != std::string::npos);
  }
}

TEST_CASE("a spike of the loss is skipped, and enough of them are rolled back") {
  Scratch scratch;
  planner::Config config = tiny({planner::Engine::kZero1, 2});
  config.guard.spike_score = 20;
  config.guard.window = 6;
  engine::SeededFault spikes;
  spikes.poisoned = {9, 10, true};
  const std::filesystem::path folder = scratch.folder();
  const engine::TrainResult skipped = run(config, {folder, false, spikes});
  CHECK(skipped.roll_backs.empty());
  CHECK(skipped.skipped_steps == 2);
  CHECK(skipped.steps[8].skipped);
  CHECK(skipped.steps[10].skipped == false);
  CHECK(is_exact(skipped));
  CHECK(newest_state(folder).good_losses.size() == 6);

  config.guard.max_skips = 2;
  const engine::TrainResult rolled = run(config, {scratch.folder(), false, spikes});
  REQUIRE(rolled.roll_backs.size() == 1);
  CHECK(rolled.roll_backs[0].at_step == 10);
  CHECK(rolled.roll_backs[0].to_step == 8);
  CHECK(rolled.roll_backs[0].reason.find("the loss is a spike") == 0);
  // A resumed run knows the losses that it is to judge by.
  const std::filesystem::path stopped = scratch.folder();
  RunOptions until_8{stopped};
  until_8.stops = [](std::int64_t steps, std::int64_t) { return steps + 1 >= 8; };
  run(config, until_8);
  const engine::TrainResult resumed = run(config, {stopped, true, spikes});
  CHECK(resumed.roll_backs.size() == 1);
  CHECK(resumed.weights_sha256 == rolled.weights_sha256);
}

TEST_CASE("float16 halves its loss scale for gradients that overflow, not for a spike") {
  Scratch scratch;
  for (const bool by_loss : {false, true}) {
    planner::Config config = tiny({planner::Engine::kZero1, 2});
    config.train.precision = planner::Precision::kFloat16;
    config.guard.spike_score = 20;
    config.guard.window = 4;
    engine::SeededFault fault;
    fault.poisoned = {6, 8, by_loss};
    const std::filesystem::path folder = scratch.folder();
    const engine::TrainResult result = run(config, {folder, false, fault});
    CHECK(result.roll_backs.empty());
    CHECK(result.skipped_steps == 3);
    CHECK(is_exact(result));
    CHECK(newest_state(folder).loss_scale == (by_loss ? 256 : 32));
  }
}

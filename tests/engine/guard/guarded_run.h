// Small runs on threads, whose guards have something to do.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "engine/trainer.h"
#include "planner/planner.h"
#include "tests/temporary_folder.h"

namespace nqd::testing {

// A folder that is removed at the end.
class Scratch {
 public:
  // A new folder of generations.
  std::filesystem::path folder();

 private:
  TemporaryFolder root_;
  int folders_ = 0;
};

struct Mesh {
  planner::Engine engine = planner::Engine::kDdp;
  std::int64_t dp = 1;
  std::int64_t tp = 1;
  std::int64_t pp = 1;
  std::int64_t threads = 1;
};

// Twelve steps of a model of two layers on the licence texts of this machine, saved every fourth.
planner::Config tiny(const Mesh& mesh = {});

struct RunOptions {
  std::filesystem::path folder;  // of generations; empty: none are saved
  bool resume = false;           // from there
  engine::SeededFault seeded{};
  double deadline_s = 60;
  // Asked before the sums of every step, with the steps and roll-backs done: whether to stop.
  std::function<bool(std::int64_t steps, std::int64_t roll_backs)> stops{};
  engine::TrainResult* so_far = nullptr;  // of rank 0, also when the run throws
};
// What rank 0 has at the end.
engine::TrainResult run(const planner::Config& config, const RunOptions& options);

// Whether every row of the audit that a sanitizer does not touch is as planned.
bool is_exact(const engine::TrainResult& result);

}  // namespace nqd::testing

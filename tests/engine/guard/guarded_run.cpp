#include "tests/engine/guard/guarded_run.h"

#include <algorithm>
#include <chrono>

#include "collectives/world.h"
#include "engine/data/training_data.h"
#include "tests/engine/tiny_run.h"

namespace nqd::testing {

std::filesystem::path Scratch::folder() {
  const std::filesystem::path made = root_ / std::to_string(folders_++);
  std::filesystem::create_directories(made);
  return made;
}

planner::Config tiny(const Mesh& mesh) {
  planner::Config config = tiny_run(mesh.dp);
  config.parallel.engine = mesh.engine;
  config.parallel.tp = mesh.tp;
  config.parallel.pp = mesh.pp;
  config.cluster.gpus_per_node = config.parallel.ranks();
  config.train.threads = mesh.threads;
  config.train.global_batch_size = 8;
  config.train.steps = 12;
  config.train.eval_every = 5;
  config.train.eval_batches = 2;
  config.train.ema = true;
  config.checkpoint.every = 4;
  config.guard.roll_back = true;
  config.guard.max_skips = 4;
  return config;
}

engine::TrainResult run(const planner::Config& config, const RunOptions& how) {
  engine::TrainResult result;
  const planner::Plan plan = planner::make_plan(config);
  const engine::TrainingData data = engine::open_training_data(config, true);
  const auto ranks = static_cast<int>(config.parallel.ranks());
  collectives::WorldOptions world_options;
  world_options.deadline =
      std::chrono::milliseconds(static_cast<std::int64_t>(1e3 * how.deadline_s));
  collectives::run_threads(ranks, world_options, [&](collectives::Communicator& world) {
    engine::TrainResult own;
    std::int64_t steps = 0;
    std::int64_t roll_backs = 0;
    engine::TrainOptions options;
    options.seeded = how.seeded;
    options.deadline_s = how.deadline_s;
    options.checkpoints.folder = how.folder;
    if (how.resume) options.checkpoints.resume = how.folder;
    options.on_step = [&](const engine::StepRecord& step) { steps = step.step; };
    options.on_roll_back = [&](const engine::RollBackRecord& back) {
      steps = back.to_step;
      ++roll_backs;
    };
    if (how.stops) options.asked_to_stop = [&] { return how.stops(steps, roll_backs); };
    try {
      engine::train(world, plan, data, options, own);
    } catch (...) {
      if (world.rank() == 0 && how.so_far != nullptr) *how.so_far = own;
      throw;
    }
    if (world.rank() == 0) result = own;
  });
  return result;
}

bool is_exact(const engine::TrainResult& result) {
  return !result.audit.empty() &&
         std::all_of(result.audit.begin(), result.audit.end(),
                     [](const engine::AuditRow& row) { return row.ok || !row.exact; });
}

}  // namespace nqd::testing

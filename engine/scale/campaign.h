// The runs of a scaling campaign: which there are, in which order, and what comes of them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/records.h"
#include "engine/scale/records.h"
#include "planner/config/config.h"
#include "planner/plan/plan.h"

namespace nqd::engine {

struct ScaleOptions {
  std::string config;                  // its file
  std::vector<std::string> overrides;  // --set
  std::string cluster_file;
  std::vector<std::int64_t> ranks;   // ascending, each once
  std::vector<ScaleRegime> regimes;  // each once
  std::int64_t seeds = 3;            // train.seed and those behind it
  std::int64_t warmup = 5;           // steps
  std::int64_t steps = 20;           // measured
  std::string launcher = "threads";
  double margin = 0.01;
};

// A point before it is measured.
struct ScaleTask {
  ScalePoint point;
  // --set values behind the caller's own: mesh, batch, steps; nothing is saved or evaluated on the
  // way. A seed and data.path are still to be added.
  std::vector<std::string> overrides;
  planner::Plan plan;
  // A task before it that is the same run, of the other regime: the base of both.
  std::optional<std::size_t> same_as;
};

// One for each regime and count of ranks. `ranks` ranks on one node make dp = ranks ÷ (tp·pp) of
// the config's tp and pp; where that is 1, engine ddp, since one rank shards nothing. Throws Error
// (kNo, NQD1410) that names every count which a rule of the mesh or of the engine, or this host's
// memory, refuses, with the reasons. `base`: the config with the caller's overrides.
std::vector<ScaleTask> scale_tasks(const ScaleOptions& options, const planner::LoadedConfig& base);

// Trains `task` with train.seed = seed.
using ScaleRunner = std::function<TrainResult(const ScaleTask& task, std::int64_t seed)>;

// Runs every task with every seed, seed by seed and the ranks inside, so that what changes slowly
// on the machine falls on all points alike. `on_run` says what comes next. Ends with what the
// runner throws.
ScaleResult run_scale(const ScaleOptions& options, const planner::Config& base,
                      std::vector<ScaleTask> tasks, const ScaleRunner& runner,
                      const std::function<void(const ScalePoint&, std::int64_t seed)>& on_run);

}  // namespace nqd::engine

// The training loop: one config, one communicator, one result. The same code runs on threads and
// under mpirun.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/host.h"
#include "collectives/communicator.h"
#include "engine/data/training_data.h"
#include "engine/records.h"
#include "planner/plan/plan.h"

namespace nqd::engine {

// Seeded defects for the tests that prove the audit can fail. Never set outside tests.
struct SeededFault {
  std::size_t extra_weights_bytes = 0;     // one more tagged buffer than planned
  std::size_t untagged_bytes = 0;          // memory that no tag knows of
  bool extra_control_sum = false;          // one more reduction than planned
  std::optional<std::size_t> skip_bucket;  // a gradient bucket that is never reduced
};

struct TrainOptions {
  std::function<void(const StepRecord&)> on_step;  // on every rank, after each step
  std::function<void(const EvalRecord&)> on_eval;  // on every rank
  SeededFault seeded;
};

// Throws Error when this build's engine cannot run the config: engine, mesh, precision or model
// that it plans but does not execute (kUsage, NQD1401), no data (kUsage, NQD1402).
void check_trainable(const planner::Config& config);

// Throws Error (kNo, NQD1403) when `ranks_here` ranks of `bytes_per_rank` need more memory than
// this host (its cgroup) allows, with the arithmetic; `hint` says what to change.
void check_host_memory(double bytes_per_rank, const HostInfo& host, int ranks_here,
                       const std::string& hint);

// Collective over `world`, whose size must be the mesh's (Error kEnvironment, NQD3001). Runs
// config.train.steps steps and fills `result` as it goes, so that after an exception
// (PeerLostError, TimeoutError, NQD4006 non-finite loss) it holds the steps done. Losses are
// bit-identical between backends and from run to run.
void train(collectives::Communicator& world, const planner::Plan& plan, const TrainingData& data,
           const TrainOptions& options, TrainResult& result);

}  // namespace nqd::engine

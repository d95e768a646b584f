// The training loop: one config, one communicator, one result. The same code runs on threads and
// under mpirun.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/host.h"
#include "collectives/communicator.h"
#include "engine/data/training_data.h"
#include "engine/records.h"
#include "engine/train/checkpoints.h"
#include "engine/train/mutant.h"
#include "planner/layout/layout.h"
#include "planner/plan/plan.h"

namespace nqd::engine {

// Seeded defects for the tests that prove the audit can fail. Never set outside tests.
struct SeededFault {
  std::size_t extra_weights_bytes = 0;  // one more tagged buffer than planned
  std::size_t untagged_bytes = 0;       // memory that no tag knows of
  bool extra_control_sum = false;       // one more reduction than planned
  Mutant mutant = Mutant::kNone;
  // In steps [first, last] the gradients of the last rank, and of no other, are infinite.
  std::int64_t first_overflow = 0;
  std::int64_t last_overflow = 0;
};

struct TrainOptions {
  std::function<void(const StepRecord&)> on_step;  // on every rank, after each step
  std::function<void(const EvalRecord&)> on_eval;  // on every rank
  // On rank 0, after the last step: every tensor of the model, whole, in the order of
  // planner::parameters. One option for all ranks: empty on all of them or on none.
  std::function<void(const std::string& name, std::span<const float> values)> on_weights;
  // Sets elements begin … of a tensor of planner::parameters before the first step; empty: weights
  // are drawn from train.seed. The same values on all ranks.
  std::function<void(const planner::TensorSpec& tensor, std::int64_t begin, std::span<float> out)>
      initial_weights;
  CheckpointOptions checkpoints;
  // Asked on every rank once a step: whether the run is to save and stop. One rank is enough.
  std::function<bool()> asked_to_stop;
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
// (PeerLostError, TimeoutError, NQD4006 loss or gradients not finite for eight steps in a row) it
// holds the steps done. A step whose loss or gradients are not finite is skipped: all ranks keep
// their weights. Losses are bit-identical between backends and from run to run, in canonical
// numerics on any mesh.
void train(collectives::Communicator& world, const planner::Plan& plan, const TrainingData& data,
           const TrainOptions& options, TrainResult& result);

}  // namespace nqd::engine

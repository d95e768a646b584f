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
#include "engine/parallel/pipeline/phase_clock.h"
#include "engine/records.h"
#include "engine/train/checkpoints.h"
#include "engine/train/mutant.h"
#include "planner/layout/layout.h"
#include "planner/plan/plan.h"

namespace nqd::engine {

// Batches that make a run go wrong.
struct PoisonedBatches {
  std::int64_t first = 0;  // 1-based; 0: none
  std::int64_t last = 0;
  bool by_loss = false;  // the loss is far too large; false: a gradient of every tensor is NaN
  bool holds(std::int64_t batch) const { return first > 0 && first <= batch && batch <= last; }
};

// Seeded defects for the tests that prove the audit can fail. Never set outside tests.
struct SeededFault {
  std::size_t extra_weights_bytes = 0;  // one more tagged buffer than planned
  std::size_t untagged_bytes = 0;       // memory that no tag knows of
  bool extra_control_sum = false;       // one more reduction than planned
  Mutant mutant = Mutant::kNone;
  // In steps [first, last] the gradients of the last rank, and of no other, are infinite.
  std::int64_t first_overflow = 0;
  std::int64_t last_overflow = 0;
  PoisonedBatches poisoned;
  int slow_rank = -1;  // sleeps so long in every pass of the phase
  Phase slow_phase = Phase::kForward;
  double slow_s = 0;
  std::int64_t hang_step = 0;  // computes for ever in this step; 0: none
  int hang_rank = -1;          // −1: all
};

struct TrainOptions {
  std::function<void(const StepRecord&)> on_step;  // on every rank, after each step
  std::function<void(const EvalRecord&)> on_eval;  // on every rank
  // On every rank, when the run has gone back to a generation.
  std::function<void(const RollBackRecord&)> on_roll_back;
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
  double deadline_s = 60;  // of the world's waits
  // WorldOptions::last_words, for ranks that are threads and come no further.
  std::function<void(const Error&)> last_words;
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
// (PeerLostError, TimeoutError, NQD4006 for guard.max_skips skipped steps in a row) it holds the
// steps done. A step whose loss or gradients are not finite, or whose loss is a spike
// (engine/train/step_guard.h), is skipped: all ranks keep their weights. With guard.roll_back a run
// that skipped so many goes back to its last generation and on without the batches behind it.
// A run that comes no further is ended (engine/train/step_watch.h).
// Losses are bit-identical between backends and from run to run, in canonical numerics on any mesh.
void train(collectives::Communicator& world, const planner::Plan& plan, const TrainingData& data,
           const TrainOptions& options, TrainResult& result);

}  // namespace nqd::engine

// The training loop: one config, one communicator, one result. The same code runs on threads and
// under mpirun.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "collectives/communicator.h"
#include "engine/data/training_data.h"
#include "engine/records.h"
#include "engine/train/checkpoints.h"
#include "engine/train/make_device.h"
#include "engine/train/seeded_fault.h"
#include "planner/layout/layout.h"
#include "planner/plan/plan.h"

namespace nqd::engine {

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
  DeviceKind device = DeviceKind::kCpu;
  // Where a device can repeat the passes of a step (Device::repeat), it does.
  bool step_graph = true;
  MessagePath messages = MessagePath::kAuto;  // of a CUDA device
  // WorldOptions::last_words, for ranks that are threads and come no further, and before NCCL is
  // aborted.
  std::function<void(const Error&)> last_words;
  SeededFault seeded;
};

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

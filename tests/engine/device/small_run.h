// Some steps of small models on any device, with all that may come between steps.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "collectives/communicator.h"
#include "engine/device/device.h"
#include "engine/parallel/mesh_groups.h"
#include "engine/train/nccl_mesh.h"
#include "planner/spec.h"

namespace nqd::tests {

// Four layers, four micro-batches of two sequences, canonical numerics in float32. With biases,
// learned positions and a tied head; gated, with rotary positions and grouped queries; and of time
// series.
planner::Config small_gpt();
planner::Config small_llama();
planner::Config small_encoder();
planner::ParallelSpec mesh(planner::Engine engine, std::int64_t dp, std::int64_t tp = 1,
                           std::int64_t pp = 1);
// On as many CPUs as it has ranks.
planner::Config on_mesh(planner::Config config, const planner::ParallelSpec& mesh);

// The step in which gradients are measured, the one without an update, behind which the model is
// evaluated and saved and its weights are set anew, and the first whose loss is scaled otherwise.
inline constexpr std::int64_t kMeasuredStep = 4;
inline constexpr std::int64_t kSkippedStep = 5;
inline constexpr std::int64_t kScaledStep = 7;
// After so many steps, those of a rank that repeats its passes: 3, 5, 6 and 9.
inline constexpr std::int64_t kManySteps = 9;
inline constexpr std::int64_t kRepeatedSteps = 4;

// Of rank 0.
struct SmallRun {
  std::vector<double> losses;  // of the steps and the evaluation
  std::vector<double> norms;
  std::string weights;       // their digest
  std::vector<float> saved;  // by saves of the skipped step and of the last
  std::int64_t repeated = 0;
  bool has_planned_bytes = true;  // of memory and messages, on every rank
  double stood_s = 0;             // NcclMesh::take_stood, all of it
  bool has_same_bits(const SmallRun& other) const;
};

// Who computes on a rank, and what carries its messages where that is not the host.
struct RankDevice {
  std::unique_ptr<engine::Device> device;
  std::unique_ptr<engine::NcclMesh> nccl;
  // Returns when the device, whose messages were aborted, has done what it was asked for.
  std::function<void()> drain;
};
struct SmallRunOptions {
  // Collective over the world. Empty: CPUs.
  std::function<RankDevice(collectives::Communicator& world, engine::MeshGroups& groups)> join;
  bool repeats = true;  // else every operation is asked for
  std::function<void(int rank, std::int64_t step)> before_step;
  std::function<void(int rank, const Error&)> on_failure;  // of any rank
};
// Throws what the rank that failed first threw.
SmallRun small_run(const planner::Config& config, std::int64_t steps,
                   const SmallRunOptions& options);

// `make_device` for every rank; empty: CPUs.
SmallRun small_run(const planner::Config& config, std::int64_t steps,
                   const std::function<std::unique_ptr<engine::Device>()>& make_device = {},
                   bool repeats = true);

}  // namespace nqd::tests

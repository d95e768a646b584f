// Small models on emulated GPUs, one a rank, over an emulated NCCL.
#pragma once

#include <chrono>
#include <memory>

#include "tests/collectives/nccl/emulated_device.h"
#include "tests/collectives/nccl/emulated_nccl.h"
#include "tests/engine/device/small_run.h"
#include "tests/engine/device/stream_device.h"

namespace nqd::tests {

// Fast numerics, in which NCCL may sum. Its emulation adds in the order of ranks: the sums of two
// ranks have the bits that any algorithm gives them.
inline planner::Config fast_on_mesh(planner::Config config, const planner::ParallelSpec& mesh) {
  config.numerics.mode = collectives::Numerics::kFast;
  config.cluster.ranks_share_memory = false;
  return on_mesh(std::move(config), mesh);
}

// Both must outlive the run.
inline SmallRunOptions on_streams(collectives::emulated::Device& api,
                                  collectives::emulated::Nccl& nccl, const planner::Config& config,
                                  std::chrono::milliseconds deadline = std::chrono::seconds(60)) {
  SmallRunOptions options;
  options.join = [&api, &nccl, config, deadline](collectives::Communicator& world,
                                                 engine::MeshGroups& groups) {
    auto device = std::make_unique<StreamDevice>(api);
    collectives::NcclOptions of_nccl;
    of_nccl.deadline = deadline;
    of_nccl.compute = device->compute_stream();
    RankDevice joined;
    joined.drain = [device = device.get(), kept = device->given_back()] { device->drain(); };
    joined.nccl =
        std::make_unique<engine::NcclMesh>(world, config, api, nccl, of_nccl, *device, groups);
    joined.device = std::move(device);
    return joined;
  };
  return options;
}

}  // namespace nqd::tests

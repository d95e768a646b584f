// Who computes for the ranks of a run.
#pragma once

#include <cstdint>
#include <memory>

#include "collectives/communicator.h"
#include "engine/device/device.h"
#include "engine/parallel/mesh_groups.h"
#include "engine/train/device_check.h"
#include "planner/spec.h"

namespace nqd::engine {

enum class DeviceKind : std::uint8_t { kCpu, kCuda };

// Before a run has any rank. Throws Error when the ranks of the config cannot compute there: no
// CUDA device, or a build without CUDA code (kEnvironment, NQD3060, with the reason); sums of
// canonical numerics that CPUs alone add up, those over a number of replicas that is no power of
// two (kUsage, NQD1401).
void require_device(DeviceKind kind, const planner::Config& config);

// The device of the calling rank of `world`, for the thread that calls, and the groups but
// `control` as communicators on its memory: where that is not the host's, each message goes through
// memory of the host. CUDA devices are dealt out to the ranks of a host in turn. Throws as above.
std::unique_ptr<Device> join_device(DeviceKind kind, const planner::Config& config,
                                    const collectives::Communicator& world, MeshGroups& groups);

// The GPU that join_device will give the calling rank, before anything is allocated there but, by
// this call, the driver's context. Throws as require_device.
FoundDevice find_gpu(const planner::Config& config, const collectives::Communicator& world);

// On train.threads threads of the CPU.
std::unique_ptr<Device> make_cpu_device(const planner::Config& config);

}  // namespace nqd::engine

// Who computes for the ranks of a run.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/error.h"
#include "collectives/communicator.h"
#include "engine/device/device.h"
#include "engine/parallel/mesh_groups.h"
#include "engine/train/device_check.h"
#include "engine/train/nccl_mesh.h"
#include "planner/spec.h"

namespace nqd::engine {

enum class DeviceKind : std::uint8_t { kCpu, kCuda };

// How messages between CUDA devices go: over NCCL, ordered by streams, or through pinned memory of
// the host over the world's backend. kAuto: over NCCL where it can sum as the config asks and every
// rank has a device of its own, or NCCL takes several on one; else through the host.
enum class MessagePath : std::uint8_t { kAuto, kHost, kNccl };

struct DeviceOptions {
  DeviceKind kind = DeviceKind::kCpu;
  MessagePath messages = MessagePath::kAuto;
  std::chrono::milliseconds deadline{60'000};      // of a call of NCCL
  std::function<void(const Error&)> last_words{};  // NcclOptions::last_words
};

// Before a run has any rank, and before anything else asks CUDA. Throws Error when the ranks of the
// config cannot compute there, or messages cannot go that way: no CUDA device, or a build without
// CUDA code (kEnvironment, NQD3060, with the reason); no NCCL that was asked for (kEnvironment,
// NQD3064); sums of canonical numerics over NCCL, or that CPUs alone add up, those over a number of
// replicas that is no power of two (kUsage, NQD1401); NCCL between CPUs (kUsage, NQD3007). Sets
// what the driver reads from the environment at its start where that is not set
// (docs/gpu.md).
void require_device(const DeviceOptions& options, const planner::Config& config);

struct JoinedDevice {
  std::unique_ptr<Device> device;
  std::unique_ptr<NcclMesh> nccl;  // null where messages go another way
};

// Collective over `world`. The device of the calling rank, for the thread that calls, and the
// groups but `control` as communicators on its memory. CUDA devices are dealt out to the ranks of a
// host in turn. Rank 0 logs how messages go. Throws as above, and as NcclMesh where NCCL was asked
// for.
JoinedDevice join_device(const DeviceOptions& options, const planner::Config& config,
                         collectives::Communicator& world, MeshGroups& groups);

// The GPU that join_device will give the calling rank, before anything is allocated there but, by
// this call, the driver's context. Throws as require_device.
FoundDevice find_gpu(const planner::Config& config, const collectives::Communicator& world);

// On train.threads threads of the CPU.
std::unique_ptr<Device> make_cpu_device(const planner::Config& config);

}  // namespace nqd::engine

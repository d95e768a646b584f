#include "engine/train/make_device.h"

#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "collectives/device/staged.h"
#include "engine/cuda/device.h"
#include "engine/cuda/make_cuda_device.h"
#include "engine/device/cpu_device.h"
#include "planner/layout/activation_buffers.h"
#include "planner/layout/state_buffers.h"
#include "planner/layout/state_shape.h"

namespace nqd::engine {
namespace {

std::string planned_memory(const planner::Config& config, const planner::RankPlace& place) {
  std::int64_t state = 0;
  for (const auto& buffer : planner::state_buffers(config, place.pp, place.dp, place.tp)) {
    if (buffer.name != planner::kSnapshot) state += buffer.bytes * buffer.count;
  }
  std::int64_t activations = 0;
  for (const auto& buffer : planner::activation_buffers(config, place.pp)) {
    activations += buffer.bytes;
  }
  return format_bytes(static_cast<double>(state)) + " of weights, gradients and optimizer state, " +
         format_bytes(static_cast<double>(activations)) + " of activations and workspace";
}

int index_on_host(const collectives::Communicator& world) {
  int before = 0;
  for (int rank = 0; rank < world.rank(); ++rank) {
    before += world.host(rank) == world.host(world.rank()) ? 1 : 0;
  }
  return before;
}

void stage_messages(MeshGroups& groups, int device) {
  collectives::StagingOptions options;
  options.device = device;
  for (auto* group : {&groups.dp, &groups.dp_shard, &groups.dp_replicate, &groups.tp, &groups.pp,
                      &groups.embedding}) {
    if (*group == nullptr) continue;
    *group = std::make_unique<collectives::StagedCommunicator>(std::move(*group),
                                                               collectives::cuda_api(), options);
  }
}

}  // namespace

void require_device(DeviceKind kind, const planner::Config& config) {
  if (kind == DeviceKind::kCpu) return;
  const CudaStatus status = cuda_status();
  if (status.devices.empty()) {
    throw Error(ExitCode::kEnvironment, "NQD3060", "no CUDA device: " + status.reason,
                status.built ? "check the driver and CUDA_VISIBLE_DEVICES (`nqd doctor`), or train "
                               "on the CPU (--device cpu)"
                             : "configure with `cmake --preset cuda`, or train on the CPU "
                               "(--device cpu)");
  }
  const planner::StateShape shape = planner::state_shape(config);
  if (!shape.canonical() || planner::sums_evenly(shape)) return;
  throw Error(ExitCode::kUsage, "NQD1401",
              "--device cuda does not sum over " + std::to_string(shape.replicas()) +
                  " replicas in canonical numerics",
              "take a power of two, or set numerics.mode to fast");
}

std::unique_ptr<Device> join_device(DeviceKind kind, const planner::Config& config,
                                    const collectives::Communicator& world, MeshGroups& groups) {
  if (kind == DeviceKind::kCpu) return make_cpu_device(config);
  require_device(kind, config);
  const int device = index_on_host(world) % static_cast<int>(cuda_status().devices.size());
  auto made = make_cuda_device(
      device, [config, place = groups.place] { return planned_memory(config, place); });
  stage_messages(groups, device);
  return made;
}

FoundDevice find_gpu(const planner::Config& config, const collectives::Communicator& world) {
  require_device(DeviceKind::kCuda, config);
  const std::vector<CudaDevice> devices = cuda_status().devices;
  FoundDevice found;
  found.index = index_on_host(world) % static_cast<int>(devices.size());
  const CudaDevice& device = devices[static_cast<std::size_t>(found.index)];
  found.name = device.name;
  found.uuid = collectives::uuid_text(collectives::cuda_api().identity(found.index).uuid);
  found.total_bytes = static_cast<double>(device.memory_bytes);
  found.free_bytes = static_cast<double>(cuda_free_bytes(found.index));
  return found;
}

std::unique_ptr<Device> make_cpu_device(const planner::Config& config) {
  return std::make_unique<CpuDevice>(static_cast<int>(config.train.threads));
}

}  // namespace nqd::engine

#include "engine/train/make_device.h"

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/units.h"
#include "collectives/device/staged.h"
#include "collectives/nccl/nccl_api.h"
#include "engine/cuda/device.h"
#include "engine/cuda/make_cuda_device.h"
#include "engine/device/cpu_device.h"
#include "engine/train/across_ranks.h"
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

void stage_messages(MeshGroups& groups, int device, const Device& computes) {
  collectives::StagingOptions options;
  options.device = device;
  options.compute = computes.compute_stream();
  for (auto* group : {&groups.dp, &groups.dp_shard, &groups.dp_replicate, &groups.tp, &groups.pp,
                      &groups.embedding}) {
    if (*group == nullptr) continue;
    *group = std::make_unique<collectives::StagedCommunicator>(std::move(*group),
                                                               collectives::cuda_api(), options);
  }
}

// Empty where this build has NCCL.
std::string missing_nccl() {
  try {
    collectives::nccl_api();
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

// Whether an error of open_nccl says that NCCL cannot be used with these ranks, rather than that it
// failed.
bool is_unfit(const Error& error) { return error.exit_code() == ExitCode::kEnvironment; }

// Collective. Null, with the reason, where it is not to be or cannot be, and was not asked for.
std::unique_ptr<NcclMesh> join_nccl(const DeviceOptions& options, const planner::Config& config,
                                    collectives::Communicator& world, int index, Device& device,
                                    MeshGroups& groups, std::string& why_not) {
  if (options.messages == MessagePath::kHost) {
    why_not = "as asked for";
    return nullptr;
  }
  why_not = nccl_objection(config);
  if (why_not.empty()) why_not = missing_nccl();
  // One answer for all ranks, whose builds may differ.
  if (sum_over(world, why_not.empty() ? 0 : 1) > 0) return nullptr;
  collectives::NcclOptions of_nccl;
  of_nccl.deadline = options.deadline;
  of_nccl.compute = device.compute_stream();
  of_nccl.device = index;
  of_nccl.last_words = options.last_words;
  try {
    return std::make_unique<NcclMesh>(world, config, collectives::cuda_api(),
                                      collectives::nccl_api(), of_nccl, device, groups);
  } catch (const Error& error) {
    if (options.messages == MessagePath::kNccl || !is_unfit(error)) throw;
    why_not = error.what();
    return nullptr;
  }
}

// What the driver reads once, when it starts; a user's own setting stays.
void prepare_driver(const planner::Config& config) {
  if (config.parallel.ranks() == 1) return;
  // Each stream a queue of its own: one that waits for another rank must not stand before one that
  // this rank waits for. The driver's usual number is 8.
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  // A kernel that is loaded when it is first launched may wait for all that runs on the device,
  // also for a message whose other rank, a thread of this process, waits for the loader's lock or
  // for what the kernel computes.
  ::setenv("CUDA_MODULE_LOADING", "EAGER", 0);
}

void require_nccl(const planner::Config& config) {
  if (const std::string objection = nccl_objection(config); !objection.empty()) {
    throw Error(ExitCode::kUsage, "NQD1401",
                "--backend nccl does not train this config: " + objection,
                "leave --backend out (messages go through the host), or set numerics.mode to fast");
  }
  collectives::nccl_api();
}

}  // namespace

void require_device(const DeviceOptions& options, const planner::Config& config) {
  if (options.kind == DeviceKind::kCpu) {
    if (options.messages != MessagePath::kNccl) return;
    throw Error(ExitCode::kUsage, "NQD3007", "--backend nccl carries messages of GPUs",
                "add --device cuda, or take --backend auto");
  }
  prepare_driver(config);
  const CudaStatus status = cuda_status();
  if (status.devices.empty()) {
    throw Error(ExitCode::kEnvironment, "NQD3060", "no CUDA device: " + status.reason,
                status.built ? "check the driver and CUDA_VISIBLE_DEVICES (`nqd doctor`), or train "
                               "on the CPU (--device cpu)"
                             : "configure with `cmake --preset cuda`, or train on the CPU "
                               "(--device cpu)");
  }
  if (options.messages == MessagePath::kNccl) require_nccl(config);
  const planner::StateShape shape = planner::state_shape(config);
  if (!shape.canonical() || planner::sums_evenly(shape)) return;
  throw Error(ExitCode::kUsage, "NQD1401",
              "--device cuda does not sum over " + std::to_string(shape.replicas()) +
                  " replicas in canonical numerics",
              "take a power of two, or set numerics.mode to fast");
}

JoinedDevice join_device(const DeviceOptions& options, const planner::Config& config,
                         collectives::Communicator& world, MeshGroups& groups) {
  if (options.kind == DeviceKind::kCpu) return {make_cpu_device(config), nullptr};
  require_device(options, config);
  const int index = index_on_host(world) % static_cast<int>(cuda_status().devices.size());
  JoinedDevice joined;
  joined.device = make_cuda_device(
      index, [config, place = groups.place] { return planned_memory(config, place); });
  if (world.size() == 1) return joined;
  std::string why_not;
  joined.nccl = join_nccl(options, config, world, index, *joined.device, groups, why_not);
  if (!joined.nccl) stage_messages(groups, index, *joined.device);
  if (world.rank() != 0) return joined;
  if (joined.nccl) {
    log::info("messages go over NCCL " +
              collectives::nccl_version_text(collectives::nccl_api().version()) +
              ", ordered by streams");
  } else {
    log::info("messages go through pinned memory of the host (" + groups.backend +
              "), not over NCCL: " + why_not);
  }
  return joined;
}

FoundDevice find_gpu(const planner::Config& config, const collectives::Communicator& world) {
  require_device({.kind = DeviceKind::kCuda}, config);
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

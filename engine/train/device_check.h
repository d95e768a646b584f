// The GPUs that a run was planned for beside those that its ranks were given.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/records.h"
#include "planner/spec.h"

namespace nqd::engine {

// A config whose cluster may be one of GPUs, as nqd's own engine runs it there: planned buffer by
// buffer and message by message, as on ranks that are CPU cores, at the speed and over the links of
// the cluster. The memory limit goes: it is that of the GPUs that are found (check_device_memory).
// Peers reach no memory of each other. cluster.gpu stays.
planner::Config on_gpus(planner::Config config);

// The GPU of a rank.
struct FoundDevice {
  int index = 0;     // among those that the rank sees
  std::string name;  // "NVIDIA H100 80GB HBM3"
  std::string uuid;  // "GPU-…"
  double total_bytes = 0;
  double free_bytes = 0;  // beside the driver's context of this process; 0: not known
};
// What RankIdentity::device says of it; "cpu" without one.
std::string device_text(const std::optional<FoundDevice>& device);

// Throws Error (kNo, NQD1407) when the `ranks` of `host` that share `device`, each with
// `planned_bytes` of buffers there, need more than is free on it: the plan, what is there, and what
// to change.
void check_device_memory(double planned_bytes, std::int64_t ranks, const FoundDevice& device,
                         const std::string& host);

// What a run is on that its plan is not of.
struct DeviceWarning {
  std::string code;       // "other-device", "shared-device"
  std::string evidence;   // a clause: what was planned, and what is there
  std::string threshold;  // when there is no warning
  std::string cause;
  std::string next_step;
};
// "other-device": a rank's GPU is not of the kind that `planned_gpu` names (cluster.gpu, such as
// "h100-sxm"), so that predicted times and MFU are of another. "shared-device": ranks share a GPU.
// Nothing for CPU ranks, and where the plan names no GPU.
std::vector<DeviceWarning> device_warnings(const std::string& planned_gpu,
                                           const std::vector<RankIdentity>& ranks);

// Distinct GPUs of the ranks; CPU ranks count one each.
std::int64_t device_count(const std::vector<RankIdentity>& ranks);
// Ranks that compute on the GPU of `rank`, itself included.
std::int64_t ranks_on_device_of(const std::vector<RankIdentity>& ranks, int rank);

}  // namespace nqd::engine

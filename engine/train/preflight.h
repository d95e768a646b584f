// What can be refused before a run has any rank.
#pragma once

#include <cstdint>
#include <string>

#include "base/host.h"
#include "engine/train/make_device.h"
#include "planner/spec.h"

namespace nqd::engine {

// Throws Error when this build's engine cannot run the config: engine, mesh, precision or model
// that it plans but does not execute (kUsage, NQD1401), no data (kUsage, NQD1402).
void check_trainable(const planner::Config& config);

// What a rank is planned to hold: on a CPU all of it in host memory; on a GPU in host memory the
// copy that a save writes and the batch that is being read, the rest on the device. Without the
// driver's context, and without what messages are staged in.
struct RankMemory {
  double host_bytes = 0;
  double device_bytes = 0;
};
RankMemory planned_memory_of(const planner::Config& config, std::int64_t rank, DeviceKind kind);

// Throws Error (kNo, NQD1403) when `ranks_here` ranks of `bytes_per_rank` need more memory than
// this host (its cgroup) allows, with the arithmetic; `hint` says what to change.
void check_host_memory(double bytes_per_rank, const HostInfo& host, int ranks_here,
                       const std::string& hint);

}  // namespace nqd::engine

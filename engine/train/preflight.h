// What can be refused before a run has any rank.
#pragma once

#include <string>

#include "base/host.h"
#include "planner/spec.h"

namespace nqd::engine {

// Throws Error when this build's engine cannot run the config: engine, mesh, precision or model
// that it plans but does not execute (kUsage, NQD1401), no data (kUsage, NQD1402).
void check_trainable(const planner::Config& config);

// Throws Error (kNo, NQD1403) when `ranks_here` ranks of `bytes_per_rank` need more memory than
// this host (its cgroup) allows, with the arithmetic; `hint` says what to change.
void check_host_memory(double bytes_per_rank, const HostInfo& host, int ranks_here,
                       const std::string& hint);

}  // namespace nqd::engine

#include "engine/train/preflight.h"

#include "base/error.h"
#include "base/ledger.h"
#include "base/units.h"
#include "planner/reference/reference_plan.h"

namespace nqd::engine {

void check_trainable(const planner::Config& config) {
  if (const auto refusal = planner::engine_refusal(config)) {
    throw Error(ExitCode::kUsage, "NQD1401", "the engine cannot run " + refusal->what,
                refusal->hint);
  }
  if (config.data.path.empty()) {
    throw Error(ExitCode::kUsage, "NQD1402", "the config has no data.path",
                "run `nqd data prepare --output runs/data FILES` (for time series `nqd data "
                "synthesize crops --output runs/data`) and set data.path: runs/data");
  }
}

RankMemory planned_memory_of(const planner::Config& config, std::int64_t rank, DeviceKind kind) {
  const planner::StageMemory planned = planner::reference_memory(config, rank);
  if (kind == DeviceKind::kCpu) return {planned.total_bytes, 0};
  const auto bytes_of = [&](MemoryTag tag) {
    const auto found = planned.categories.find(std::string(name(tag)));
    return found == planned.categories.end() ? 0.0 : found->second;
  };
  const double copy = bytes_of(MemoryTag::kCheckpoint);
  return {copy + bytes_of(MemoryTag::kData), planned.total_bytes - copy};
}

void check_host_memory(double bytes_per_rank, const HostInfo& host, int ranks_here,
                       const std::string& hint) {
  const double needed = bytes_per_rank * ranks_here;
  const auto limit = static_cast<double>(host.memory_limit_bytes());
  if (limit == 0 || needed <= limit) return;
  throw Error(ExitCode::kNo, "NQD1403",
              std::to_string(ranks_here) + " ranks of " + format_bytes_binary(bytes_per_rank) +
                  " need " + format_bytes_binary(needed) + ", but host " + host.hostname +
                  " allows " + format_bytes_binary(limit) +
                  (host.cgroup_memory_bytes ? " (its cgroup's limit)" : "") + ": " +
                  format_bytes_binary(needed - limit) + " too much",
              hint);
}

}  // namespace nqd::engine

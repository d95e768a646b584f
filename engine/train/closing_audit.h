// The table that ends a run: what every rank measured beside what was planned.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ledger.h"
#include "collectives/communicator.h"
#include "engine/parallel/mesh_groups.h"
#include "engine/records.h"
#include "engine/train/rank_state.h"
#include "engine/train/traffic_meter.h"
#include "planner/plan/plan.h"

namespace nqd::engine {

// The process before its ranks allocate anything.
struct ResidentStart {
  std::uint64_t resident_bytes = 0;
  std::uint64_t anonymous_bytes = 0;
  bool peak_is_own = false;  // earlier peaks are forgotten
};
// Collective over `world`, as ranks that are threads share one process.
ResidentStart resident_start(collectives::Communicator& world);

// What the audit reads of one rank after the last step.
struct RankBooks {
  const planner::Plan& plan;
  const MeshGroups& groups;
  const MemoryLedger& ledger;
  RankState& state;
  const SentCounts& sent;
  const TrainResult& result;  // its steps, and what came before and between them
  const ResidentStart& start;
};

// Collective over `world`; every rank gets the same rows. Of memory and traffic the worst over the
// ranks (rows of nothing planned and nothing measured are left out), the step time, and whether
// ranks that hold the same weights hold equal ones. Two rows are the kernel's word:
//   resident_growth  anonymous memory that the process has now and had not at the start, against
//                    its ranks' ledgers and packing buffers: a buffer that no tag knows of shows
//                    here;
//   peak_resident    its largest resident set since the start, against the planned total: what
//                    libraries took for a while shows here. Allowed besides: what was resident at
//                    the start, and pages of files and of other processes' buffers.
std::vector<AuditRow> closing_audit(collectives::Communicator& world, const RankBooks& books);

}  // namespace nqd::engine

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

// What the audit reads of one rank after the last step.
struct RankBooks {
  const planner::Plan& plan;
  const MeshGroups& groups;
  const MemoryLedger& ledger;
  RankState& state;
  const SentCounts& sent;
  const std::vector<StepRecord>& steps;
  std::int64_t resumed_after = 0;  // the step that came before them
  // Anonymous resident set of the process before the rank allocated anything.
  std::uint64_t resident_before_bytes = 0;
};

// Collective over `world`; every rank gets the same rows. Of memory and traffic the worst over the
// ranks (rows of nothing planned and nothing measured are left out), the step time, and whether
// ranks that hold the same weights hold equal ones.
std::vector<AuditRow> closing_audit(collectives::Communicator& world, const RankBooks& books);

}  // namespace nqd::engine

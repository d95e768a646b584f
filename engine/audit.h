// Measured against predicted, after a run. Measured bytes come from the memory ledger and the
// transports' counters alone; predicted ones from the plan alone.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ledger.h"
#include "collectives/communicator.h"
#include "engine/records.h"
#include "engine/train/traffic_meter.h"
#include "planner/plan/plan.h"

namespace nqd::engine {

// Persistent and transient bytes of `rank`, a row for every tag of the ledger, also those at 0: all
// ranks have the same rows. Exact. `backend`: MeshGroups::backend; the plan is without the scratch
// of groups whose messages NCCL carries, in memory of its own.
std::vector<AuditRow> memory_rows(const planner::Config& config, std::int64_t rank,
                                  const MemoryLedger& ledger, std::string_view backend);
// Adds the activations of each stage of a pipeline, "activations.stage0" …: on a rank of another
// stage nothing.
void add_stage_rows(std::vector<AuditRow>& rows, const planner::Config& config, std::int64_t rank);
// Steps that a run made one after the other.
struct StepSpan {
  std::int64_t after = 0;  // the step before them
  std::int64_t steps = 0;
  bool undone = false;  // a roll-back followed: nothing was evaluated behind the last of them
  std::int64_t last() const { return after + steps; }
};
// All that a run made, those of its roll-backs twice.
std::vector<StepSpan> spans_of(const TrainResult& result);

// Bytes that `rank` sent in the steps of a run, a row for every group and collective of
// sent_keys(); exact. `sent` leaves out what evaluations sent but on "control", which sums once a
// step, once an evaluation, and at the end takes the maximum of the step times.
std::vector<AuditRow> traffic_rows(const planner::Config& config, std::int64_t rank,
                                   std::span<const StepSpan> spans, const SentCounts& sent);
// What the kernel says of the process's memory, against what its ranks account for. Allowed: −2 %,
// +5 % + `allowance_bytes`.
AuditRow witness_row(std::string category, double accounted_bytes, double measured_bytes,
                     double allowance_bytes);
// Empty when the plan has no step time.
std::vector<AuditRow> time_rows(const planner::Plan& plan, const std::vector<StepRecord>& steps);

// Sets ratio and, for exact and witness rows, ok.
AuditRow finish(AuditRow row);

// Collective. Of each row, the worst over the ranks (a failing one before the others, then the
// furthest from ratio 1, then the one of most predicted), with a note that names the rank; every
// rank passes the same rows in the same order and gets the same result.
std::vector<AuditRow> worst_over_ranks(collectives::Communicator& world,
                                       std::vector<AuditRow> rows);

bool all_ok(const std::vector<AuditRow>& rows);

// The median of the step times after the first (warm-up); 0 without steps.
double median_step_s(const std::vector<StepRecord>& steps);

}  // namespace nqd::engine

#include "engine/audit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <utility>

#include "collectives/cost.h"
#include "planner/layout/control.h"
#include "planner/mesh/rank_map.h"
#include "planner/reference/group_scratch.h"
#include "planner/reference/reference_plan.h"

namespace nqd::engine {
namespace {

double bytes_of(const planner::StageMemory& memory, const std::string& category) {
  const auto found = memory.categories.find(category);
  return found == memory.categories.end() ? 0.0 : found->second;
}

// A ring all_reduce of `count` values of 8 bytes over all ranks.
double control_bytes(const planner::Config& config, std::int64_t rank, std::size_t count) {
  return static_cast<double>(
      collectives::rank_traffic(collectives::Collective::kAllReduce, collectives::Algorithm::kRing,
                                static_cast<std::size_t>(config.parallel.ranks()),
                                static_cast<std::size_t>(rank), count, 8)
          .bytes_sent);
}

// Before the first step, every eval_every steps, and behind the last of all.
std::int64_t evaluations(const planner::TrainSpec& train, const StepSpan& span) {
  const std::int64_t every = train.eval_every;
  const std::int64_t last = span.undone ? span.last() - 1 : span.last();
  std::int64_t count = span.after == 0 ? 1 : 0;
  if (every > 0) count += last / every - span.after / every;
  const bool ends = span.steps > 0 && last == train.steps;
  return count + (ends && (every == 0 || train.steps % every != 0) ? 1 : 0);
}

// Sums that tell all ranks the times of each.
std::int64_t exchanges(const planner::Config& config, const StepSpan& span) {
  if (config.guard.straggler_score == 0) return 0;
  const std::int64_t window = config.guard.window;
  const auto ranks = static_cast<std::size_t>(config.parallel.ranks());
  return (span.last() / window - span.after / window) *
         static_cast<std::int64_t>(planner::time_sums(ranks));
}

double distance(const AuditRow& row) { return std::abs(std::log(std::max(row.ratio, 1e-300))); }

}  // namespace

AuditRow finish(AuditRow row) {
  if (row.predicted == row.measured) {
    row.ratio = 1;
  } else if (row.predicted == 0) {
    row.ratio = std::numeric_limits<double>::max();  // something where nothing was planned
  } else {
    row.ratio = row.measured / row.predicted;
  }
  if (row.exact) row.ok = row.predicted == row.measured;
  if (row.kind == "witness") {
    row.ok = row.measured >= 0.98 * row.predicted &&
             row.measured <= 1.05 * row.predicted + row.allowance;
  }
  return row;
}

std::vector<AuditRow> memory_rows(const planner::Config& config, std::int64_t rank,
                                  const MemoryLedger& ledger, std::string_view backend) {
  planner::StageMemory planned = planner::reference_memory(config, rank);
  if (backend == "nccl") {
    planned.categories[std::string(name(MemoryTag::kCommunication))] -=
        static_cast<double>(planner::group_scratch_bytes(config, rank));
  }
  std::vector<AuditRow> rows;
  for (std::size_t i = 0; i < static_cast<std::size_t>(MemoryTag::kCount); ++i) {
    const auto tag = static_cast<MemoryTag>(i);
    AuditRow row;
    row.category = name(tag);
    row.kind = is_persistent(tag) ? "persistent" : "transient";
    row.unit = "bytes";
    row.exact = true;
    row.predicted = bytes_of(planned, row.category);
    row.measured = static_cast<double>(ledger.peak_bytes(tag));
    row.note = "peak of tagged allocations";
    rows.push_back(finish(std::move(row)));
  }
  return rows;
}

void add_stage_rows(std::vector<AuditRow>& rows, const planner::Config& config, std::int64_t rank) {
  const std::int64_t stages = config.parallel.pp;
  if (stages == 1) return;
  const std::int64_t own = planner::RankMap(config).place(rank).pp;
  const auto of_rank = std::find_if(rows.begin(), rows.end(), [](const AuditRow& row) {
    return row.category == name(MemoryTag::kActivations);
  });
  const AuditRow activations = *of_rank;
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    AuditRow row = activations;
    row.category += ".stage" + std::to_string(stage);
    if (stage != own) row.predicted = row.measured = 0;
    rows.push_back(finish(std::move(row)));
  }
}

std::vector<StepSpan> spans_of(const TrainResult& result) {
  std::vector<StepSpan> spans;
  std::int64_t after = result.resumed_after;
  for (const RollBackRecord& roll_back : result.roll_backs) {
    spans.push_back({after, roll_back.at_step - after, true});
    after = roll_back.to_step;
  }
  const std::int64_t last = result.steps.empty() ? after : result.steps.back().step;
  spans.push_back({after, last - after, false});
  return spans;
}

std::vector<AuditRow> traffic_rows(const planner::Config& config, std::int64_t rank,
                                   std::span<const StepSpan> spans, const SentCounts& sent) {
  std::int64_t steps = 0;
  std::int64_t sums = 0;
  for (const StepSpan& span : spans) {
    steps += span.steps;
    sums += span.steps + evaluations(config.train, span) + exchanges(config, span);
  }
  std::map<SentKey, double> planned;
  for (const planner::GroupTraffic& traffic : planner::reference_traffic(config, rank)) {
    planned[{traffic.group, traffic.collective}] +=
        traffic.bytes_sent_per_rank * static_cast<double>(steps);
  }
  planned[{"control", "all_reduce"}] =
      control_bytes(config, rank, planner::kTotalsWords) * static_cast<double>(sums) +
      control_bytes(config, rank, static_cast<std::size_t>(config.train.steps));
  std::vector<AuditRow> rows;
  for (const SentKey& key : sent_keys()) {
    const auto measured = sent.find(key);
    AuditRow row;
    row.category = key.first + "." + key.second;
    row.kind = "communicated";
    row.unit = "bytes";
    row.exact = true;
    row.predicted = planned[key];
    row.measured = measured == sent.end() ? 0 : static_cast<double>(measured->second.bytes_sent);
    row.note = "bytes sent by a rank, counted in the transport";
    rows.push_back(finish(std::move(row)));
  }
  return rows;
}

AuditRow witness_row(std::string category, double accounted_bytes, double measured_bytes,
                     double allowance_bytes) {
  AuditRow row;
  row.category = std::move(category);
  row.kind = "witness";
  row.unit = "bytes";
  row.predicted = accounted_bytes;
  row.measured = measured_bytes;
  row.allowance = allowance_bytes;
  return finish(std::move(row));
}

std::vector<AuditRow> time_rows(const planner::Plan& plan, const std::vector<StepRecord>& steps) {
  if (plan.time.step_s <= 0 || steps.empty()) return {};
  AuditRow row;
  row.category = "step_time";
  row.kind = "time";
  row.unit = "s";
  row.predicted = plan.time.step_s;
  row.measured = median_step_s(steps);
  row.note = "median step, maximum over ranks; the first step is left out";
  return {finish(std::move(row))};
}

std::vector<AuditRow> worst_over_ranks(collectives::Communicator& world,
                                       std::vector<AuditRow> rows) {
  using Values = std::array<double, 3>;
  std::vector<Values> mine;
  for (const AuditRow& row : rows) mine.push_back({row.predicted, row.measured, row.allowance});
  const auto ranks = static_cast<std::size_t>(world.size());
  std::vector<Values> all(mine.size() * ranks);
  world.all_gather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)),
                   DType::kFloat64);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    AuditRow worst;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      AuditRow row = rows[i];
      const Values& values = all[rank * rows.size() + i];
      row.predicted = values[0];
      row.measured = values[1];
      row.allowance = values[2];
      row = finish(row);
      if (ranks > 1)
        row.note += "; worst of " + std::to_string(ranks) + " ranks: rank " + std::to_string(rank);
      // Of ranks that are equally right, the one that has most to be right about.
      const bool worse = row.ok == worst.ok ? std::pair(distance(row), row.predicted) >
                                                  std::pair(distance(worst), worst.predicted)
                                            : !row.ok;
      if (rank == 0 || worse) worst = row;
    }
    rows[i] = worst;
  }
  return rows;
}

bool all_ok(const std::vector<AuditRow>& rows) {
  return std::all_of(rows.begin(), rows.end(), [](const AuditRow& row) { return row.ok; });
}

double median_step_s(const std::vector<StepRecord>& steps) {
  std::vector<double> times;
  for (std::size_t i = steps.size() > 1 ? 1 : 0; i < steps.size(); ++i)
    times.push_back(steps[i].step_s);
  if (times.empty()) return 0;
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

}  // namespace nqd::engine

#include "reports/summary.h"

#include <algorithm>

namespace nqd::reports {

std::vector<FabricSummary> summarize(const collectives::BenchResult& result) {
  std::vector<FabricSummary> summaries;
  for (const collectives::BenchRow& row : result.rows) {
    auto found = std::find_if(summaries.begin(), summaries.end(), [&](const FabricSummary& entry) {
      return entry.collective == row.collective && entry.algorithm == row.algorithm &&
             entry.ranks == row.ranks;
    });
    if (found == summaries.end()) {
      summaries.push_back({.collective = row.collective,
                           .algorithm = row.algorithm,
                           .ranks = row.ranks,
                           .smallest_bytes = row.effective_bytes,
                           .smallest_p50_s = row.p50_s});
      found = summaries.end() - 1;
    }
    if (row.busbw_gbps > found->peak_busbw_gbps) {
      found->peak_busbw_gbps = row.busbw_gbps;
      found->peak_bytes = row.effective_bytes;
    }
    if (row.effective_bytes < found->smallest_bytes) {
      found->smallest_bytes = row.effective_bytes;
      found->smallest_p50_s = row.p50_s;
    }
    found->wrong += row.wrong;
  }
  return summaries;
}

TrainSummary summarize(const engine::TrainResult& result) {
  TrainSummary summary;
  std::vector<double> times;
  for (const engine::StepRecord& step : result.steps) {
    summary.tokens += step.tokens;
    times.push_back(step.step_s);
  }
  summary.steps = static_cast<std::int64_t>(result.steps.size());
  if (!result.steps.empty()) {
    summary.first_loss = result.steps.front().loss;
    summary.final_loss = result.steps.back().loss;
    if (times.size() > 1) times.erase(times.begin());
    summary.step_p50_s = collectives::percentile(times, 0.50);
    summary.step_p95_s = collectives::percentile(times, 0.95);
  }
  if (!result.evals.empty()) {
    if (result.evals.size() > 1) summary.first_heldout_loss = result.evals.front().loss;
    summary.final_heldout_loss = result.evals.back().loss;
  }
  for (const engine::AuditRow& row : result.audit) {
    summary.exact_rows += row.exact ? 1 : 0;
    summary.exact_rows_ok += row.exact && row.ok ? 1 : 0;
  }
  return summary;
}

}  // namespace nqd::reports

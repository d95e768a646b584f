#include "planner/plan/communication.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "planner/reference/reference_plan.h"
#include "planner/traffic/stage_traffic.h"

namespace nqd::planner {
namespace {

void keep_larger(std::vector<TrafficRow>& all, const TrafficRow& row) {
  for (TrafficRow& known : all) {
    GroupTraffic& most = known.traffic;
    if (most.group != row.traffic.group || most.collective != row.traffic.collective) continue;
    most.calls = std::max(most.calls, row.traffic.calls);
    most.bytes_sent_per_rank = std::max(most.bytes_sent_per_rank, row.traffic.bytes_sent_per_rank);
    most.time_s = std::max(most.time_s, row.traffic.time_s);
    most.exposed_s = std::max(most.exposed_s, row.traffic.exposed_s);
    most.time_known = most.time_known && row.traffic.time_known;
    return;
  }
  all.push_back(row);
}

}  // namespace

double exposed_seconds(const std::vector<CallRun>& runs, double compute_s) {
  double free_at = 0;
  double all_s = 0;
  for (const CallRun& run : runs) {
    const double run_s = run.calls * run.seconds;
    // In between, readiness grows evenly: either the first or the last call of a run is waited for.
    free_at = std::max({free_at + run_s, run.first_ready * compute_s + run_s,
                        run.last_ready * compute_s + run.seconds});
    all_s += run_s;
  }
  return std::clamp(free_at - compute_s, 0.0, all_s);
}

std::vector<BucketRun> stage_buckets(const Config& config, const StageLayout& stage) {
  const std::int64_t bytes = gradient_bytes(config.train);
  std::vector<BucketRun> runs;
  if (!stage.tensors.empty()) {
    for (const Bucket& bucket : gradient_buckets(stage.tensors, config.train.bucket_bytes, bytes)) {
      runs.push_back({bucket.begin, bucket.count, 1});
    }
    return runs;
  }
  const std::int64_t elements = std::max<std::int64_t>(std::llround(stage.parameters), 1);
  const std::int64_t most = std::max<std::int64_t>(config.train.bucket_bytes / bytes, 1);
  const std::int64_t buckets = (elements - 1) / most + 1;
  // Cut as evenly as whole elements allow, the longer buckets at the front of the arena.
  const std::int64_t count = elements / buckets;
  const std::int64_t longer = elements % buckets;
  runs.push_back({longer * (count + 1), count, buckets - longer});
  if (longer > 0) runs.push_back({0, count + 1, longer});
  return runs;
}

CommunicationPlan plan_communication(const Config& config, const MicroBatchTime& compute) {
  if (runs_on_reference_engine(config)) {
    return plan_reference_engine(config, compute).communication;
  }
  CommunicationPlan plan;
  std::vector<TrafficRow> rows;
  for (const StageLayout& stage : stage_layouts(config)) {
    TrafficRows of_stage(config.cluster, plan);
    add_data_parallel(config, stage, compute, of_stage);
    add_model_parallel(config, stage, of_stage);
    for (const TrafficRow& row : of_stage.rows()) keep_larger(rows, row);
  }
  for (const TrafficRow& row : rows) {
    (row.in_micro_batches ? plan.exposed_in_micro_batches_s : plan.exposed_once_s) +=
        row.traffic.exposed_s;
    plan.traffic.push_back(row.traffic);
  }
  return plan;
}

}  // namespace nqd::planner

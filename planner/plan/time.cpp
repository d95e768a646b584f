#include "planner/plan/time.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <utility>

#include "planner/models/shape.h"
#include "planner/reference/reference_plan.h"
#include "planner/text.h"

namespace nqd::planner {
namespace {

// Below this share of the peak a measured rate is most likely another machine's.
constexpr double kPlausibleGemmShare = 0.05;

Diagnostic missing_rate(const std::string& path, const std::string& reason) {
  Diagnostic note;
  note.code = "NQD1306";
  note.severity = Severity::kNote;
  note.path = path;
  note.message = "the step time is unknown, because " + reason;
  note.hint = "measure this machine with `nqd bench` and `nqd calibrate`, and pass --cluster FILE";
  return note;
}

std::string teraflops(double rate) {
  std::array<char, 48> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.4g TFLOP/s", rate / 1e12);
  return buffer.data();
}

std::vector<Diagnostic> check_rates(const ClusterSpec& cluster) {
  std::vector<Diagnostic> findings;
  if (gemm_rate_flops(cluster) <= 0) {
    findings.push_back(missing_rate("cluster.gemm_flops",
                                    "neither cluster.gemm_flops nor cluster.peak_flops is given"));
  }
  if (cluster.memory_bandwidth_bytes_per_s <= 0) {
    findings.push_back(missing_rate("cluster.memory_bandwidth_bytes_per_s",
                                    "cluster.memory_bandwidth_bytes_per_s is not given"));
  }
  const double share = cluster.peak_flops > 0 ? cluster.gemm_flops / cluster.peak_flops : 1;
  if (!cluster.calibration_source.empty() && share > 0 && share < kPlausibleGemmShare) {
    Diagnostic warning;
    warning.code = "NQD1308";
    warning.severity = Severity::kWarning;
    warning.path = "cluster.gemm_flops";
    warning.message = "the calibrated matrix product rate of " + teraflops(cluster.gemm_flops) +
                      " is below " + percent(kPlausibleGemmShare) + " of the stated peak of " +
                      teraflops(cluster.peak_flops) +
                      ": it was most likely measured on another kind of device";
    warning.hint =
        "calibrate on the cluster that is planned, or plan for the one that was measured";
    findings.push_back(std::move(warning));
  }
  return findings;
}

void take(ReferenceTime time, ComputePlan& plan) {
  plan.known = time.known;
  plan.micro_batch = time.slowest;
  plan.optimizer_s = time.optimizer_s;
  plan.diagnostics.insert(plan.diagnostics.end(), time.diagnostics.begin(), time.diagnostics.end());
  plan.reference = std::move(time);
}

}  // namespace

ModelFlops sample_flops(const ModelSpec& model, Recompute recompute) {
  const ModelShape shape = model_shape(model, TrainSpec{});
  if (!shape.known) return {};
  const SampleFlops sample = forward_flops(shape);
  ModelFlops flops;
  flops.model = 3 * (sample.matmul + sample.attention);
  flops.hardware = flops.model;
  if (recompute == Recompute::kFull) {
    flops.hardware += sample.matmul - sample.head + sample.attention;
  } else if (recompute == Recompute::kSelective) {
    flops.hardware += sample.attention;
  }
  return flops;
}

ModelFlops token_flops(const ModelSpec& model, Recompute recompute) {
  if (!is_transformer(model) || model.sequence <= 0) return {};
  const ModelFlops sample = sample_flops(model, recompute);
  const auto tokens = static_cast<double>(model.sequence);
  return {sample.model / tokens, sample.hardware / tokens};
}

double gemm_rate_flops(const ClusterSpec& cluster) {
  return cluster.gemm_flops > 0 ? cluster.gemm_flops
                                : cluster.device.gemm_share * cluster.peak_flops;
}

ComputePlan plan_compute(const Config& config) {
  ComputePlan plan;
  if (config.model.family == "state") return plan;
  const bool reference = runs_on_reference_engine(config);
  if (reference && engine_rates(config) != nullptr) {
    take(reference_time(config), plan);
    return plan;
  }
  plan.known =
      gemm_rate_flops(config.cluster) > 0 && config.cluster.memory_bandwidth_bytes_per_s > 0;
  plan.diagnostics = check_rates(config.cluster);
  if (!plan.known) return plan;
  if (reference) {
    take(reference_time(config), plan);
    return plan;
  }
  plan.step = TimeModel(config).step(candidate_of(config));
  plan.micro_batch = {plan.step.forward_s, plan.step.backward_s};
  plan.optimizer_s = plan.step.optimizer_s;
  return plan;
}

TimePlan plan_time(const Config& config, const ComputePlan& compute,
                   const CommunicationPlan& communication) {
  TimePlan time;
  if (!compute.known || !communication.times_known) return time;
  if (runs_on_reference_engine(config)) {
    return plan_reference_time(config, compute.reference, communication);
  }
  const auto tokens = static_cast<double>(config.train.global_batch_size * config.model.sequence);
  const StepTime& step = compute.step;
  time.compute_s = step.compute_s;
  time.exposed_communication_s = step.exposed_s;
  time.bubble_s = step.bubble_s;
  time.optimizer_s = step.optimizer_s;
  time.jitter_s = step.jitter_s;
  time.step_s = step.step_s;
  time.tokens_per_s = time.step_s > 0 ? tokens / time.step_s : 0;
  return time;
}

void price_traffic(const StepTime& step, std::vector<GroupTraffic>& traffic) {
  if (!step.known) return;
  const auto index_of = [](std::string_view name) {
    CommGroup group = CommGroup::kDp;
    if (name == "tp") group = CommGroup::kTp;
    if (name == "cp") group = CommGroup::kCp;
    if (name == "ep") group = CommGroup::kEp;
    if (name == "pp") group = CommGroup::kPp;
    if (name == "embedding") group = CommGroup::kEmbedding;
    return static_cast<std::size_t>(group);
  };
  std::array<double, kCommGroups> alone{};
  for (const GroupTraffic& row : traffic) alone[index_of(row.group)] += row.time_s;
  for (GroupTraffic& row : traffic) {
    if (row.time_s <= 0) continue;
    const GroupTime& group = step.groups[index_of(row.group)];
    const double share = row.time_s / alone[index_of(row.group)];
    row.time_s = share * group.time_s;
    row.exposed_s = share * group.exposed_s;
  }
}

double utilisation(const Config& config, double flops_per_s) {
  const double peak = config.cluster.peak_flops * static_cast<double>(config.parallel.ranks());
  return peak > 0 ? flops_per_s / peak : 0;
}

}  // namespace nqd::planner

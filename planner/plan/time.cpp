#include "planner/plan/time.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <utility>

#include "planner/mesh/stages.h"
#include "planner/models/shape.h"
#include "planner/plan/memory.h"
#include "planner/plan/pipeline.h"
#include "planner/reference/reference_plan.h"
#include "planner/text.h"

namespace nqd::planner {
namespace {

constexpr double kOptimizerBytesPerParameter = 28;
// Below this share of the peak a measured rate is most likely another machine's.
constexpr double kPlausibleGemmShare = 0.05;

// Elements of a layer's weight matrices: qkv, attention projection and the two of the MLP.
double layer_matmul_parameters(const ModelSpec& model) {
  const auto h = static_cast<double>(model.hidden);
  return 4 * h * h + 2 * h * static_cast<double>(model.ffn_hidden);
}

double head_matmul_parameters(const ModelSpec& model) {
  return static_cast<double>(model.vocab) * static_cast<double>(model.hidden);
}

// s·h of one token against the whole sequence.
double score_products(const ModelSpec& model) {
  return static_cast<double>(model.sequence) * static_cast<double>(model.hidden);
}

// The CPU kernels skip the half of the s × s scores that causality masks.
constexpr double kScoreShare = 0.5;

// Elements that the element-wise passes of a layer's forward read and write for a token on one
// rank: two norms (2h each), two residual sums (3h each), heads split and merged (8h), GELU (2f)
// and the softmax over the scores (2·a·s).
double layer_elementwise(const Config& config) {
  const ModelSpec& model = config.model;
  const auto h = static_cast<double>(model.hidden);
  const auto t = static_cast<double>(config.parallel.tp);
  const double split = 8 * h + 2 * static_cast<double>(model.ffn_hidden) +
                       2 * kScoreShare * static_cast<double>(model.heads * model.sequence);
  return split / t + 10 * h / (config.parallel.sequence_parallel ? t : 1);
}

MicroBatchTime stage_time(const Config& config, const StageLayout& stage) {
  const ModelSpec& model = config.model;
  const auto t = static_cast<double>(config.parallel.tp);
  const auto tokens = static_cast<double>(config.train.micro_batch_size * model.sequence);
  const auto layers = static_cast<double>(stage.layers);
  const auto element = static_cast<double>(weight_bytes(config.train));
  const double rate = gemm_rate_flops(config.cluster);
  const double bandwidth = config.cluster.memory_bandwidth_bytes_per_s;

  const double layer_flops =
      2 * layer_matmul_parameters(model) + 4 * kScoreShare * score_products(model);
  const double head_flops = stage.last ? 2 * head_matmul_parameters(model) : 0;
  const double layers_s =
      layers * tokens * (layer_flops / t / rate + element * layer_elementwise(config) / bandwidth);
  // Float32 logits: read and written by the softmax, rewritten as their gradient.
  const double logits_s =
      stage.last ? 4 * tokens * static_cast<double>(model.vocab) / t / bandwidth : 0;

  MicroBatchTime time;
  time.forward_s = layers_s + tokens * head_flops / t / rate + 2 * logits_s;
  // Every product has two in backward, every element-wise pass reads and writes twice as much.
  time.backward_s = 2 * layers_s + 2 * tokens * head_flops / t / rate + logits_s;
  if (config.train.recompute == Recompute::kFull) time.backward_s += layers_s;
  return time;
}

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
  const double bandwidth = config.cluster.memory_bandwidth_bytes_per_s;
  plan.known = gemm_rate_flops(config.cluster) > 0 && bandwidth > 0;
  plan.diagnostics = check_rates(config.cluster);
  if (!plan.known) return plan;
  if (!runs_on_reference_engine(config)) {
    plan.step = TimeModel(config).step(candidate_of(config));
    plan.micro_batch = {plan.step.forward_s, plan.step.backward_s};
    plan.optimizer_s = plan.step.optimizer_s;
    return plan;
  }
  const auto shards = static_cast<double>(shard_counts(config).optimizer);
  for (const StageLayout& stage : stage_layouts(config)) {
    const MicroBatchTime time = stage_time(config, stage);
    if (time.forward_s + time.backward_s >
        plan.micro_batch.forward_s + plan.micro_batch.backward_s) {
      plan.micro_batch = time;
    }
    plan.optimizer_s = std::max(
        plan.optimizer_s, kOptimizerBytesPerParameter * stage.parameters / shards / bandwidth);
  }
  return plan;
}

TimePlan plan_time(const Config& config, const ComputePlan& compute,
                   const CommunicationPlan& communication, double bubble_fraction) {
  TimePlan time;
  if (!compute.known || !communication.times_known) return time;
  const auto tokens = static_cast<double>(config.train.global_batch_size * config.model.sequence);
  if (!runs_on_reference_engine(config)) {
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
  const auto m = static_cast<double>(micro_batches_of(config));
  time.compute_s = m * (compute.micro_batch.forward_s + compute.micro_batch.backward_s);
  time.exposed_communication_s =
      communication.exposed_in_micro_batches_s + communication.exposed_once_s;
  const double slots_s = time.compute_s + communication.exposed_in_micro_batches_s;
  time.bubble_s = slots_s * bubble_fraction / (1 - bubble_fraction);
  time.optimizer_s = compute.optimizer_s;
  time.step_s = time.compute_s + time.bubble_s + time.exposed_communication_s + time.optimizer_s;
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

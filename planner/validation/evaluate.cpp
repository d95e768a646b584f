#include "planner/validation/evaluate.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "planner/estimate/candidate.h"
#include "planner/estimate/memory_model.h"
#include "planner/estimate/time_model.h"
#include "planner/mesh/fabric.h"
#include "planner/models/shape.h"

namespace nqd::planner {
namespace {

// Forward, twice that backward, and what is computed again.
double step_flops(const Config& config) {
  const SampleFlops sample = forward_flops(model_shape(config.model, config.train));
  const double attention =
      config.train.attention == Attention::kFlash ? sample.attention : sample.attention_full;
  double flops = 3 * (sample.matmul + attention);
  if (config.train.recompute == Recompute::kFull) flops += sample.matmul - sample.head + attention;
  if (config.train.recompute == Recompute::kSelective) flops += attention;
  return flops * static_cast<double>(config.train.global_batch_size);
}

double state_bytes(const Config& config) {
  constexpr double kBytesAParameter = 16;
  const double parameters = model_shape(config.model, config.train).parameters;
  const auto& parallel = config.parallel;
  const bool sharded = parallel.engine != Engine::kDdp;
  const std::int64_t sharers =
      parallel.tp * parallel.pp * (sharded ? parallel.dp * parallel.cp : 1);
  return kBytesAParameter * parameters / static_cast<double>(sharers);
}

// The peak that the row's kind of measurement would show.
double peak_bytes(const PublishedRow& row) {
  const WorstStage worst = MemoryModel(*row.config).worst(candidate_of(*row.config));
  switch (row.memory_kind) {
    case MemoryKind::kAllocated:
      return worst.allocated_bytes;
    case MemoryKind::kReserved:
      return worst.reserved_bytes;
    case MemoryKind::kDevice:
      return worst.total_bytes;
  }
  return 0;
}

// Of consecutive ranks, with nothing beside them.
double collective_time(const PublishedRow& row) {
  const ClusterSpec& cluster = row.config->cluster;
  const Placement group = place(cluster, row.ranks, 1);
  return all_reduce_cost(cluster, group, cluster.fabric.network_share).seconds(row.bytes);
}

std::string group_of(const PublishedRow& row) {
  const Config& config = *row.config;
  return row.model + "|" + std::to_string(config.model.sequence) + "|" +
         std::to_string(config.parallel.ranks()) + "|" +
         std::to_string(config.train.global_batch_size) + "|" + config.cluster.gpu + "|" +
         std::string(name(config.train.precision));
}

void judge_errors(TableScore& score) {
  std::vector<double> basis;
  std::vector<double> measured;
  for (const JudgedRow& judged : score.rows) {
    basis.push_back(null_basis(*judged.row));
    measured.push_back(judged.row->measured);
  }
  const double constant = best_constant(basis, measured);
  std::vector<double> errors;
  std::vector<double> unsuspected;
  std::vector<double> null_errors;
  for (std::size_t i = 0; i < score.rows.size(); ++i) {
    JudgedRow& judged = score.rows[i];
    judged.error = relative_error(judged.predicted, measured[i]);
    judged.null_error = relative_error(constant * basis[i], measured[i]);
    errors.push_back(judged.error);
    null_errors.push_back(judged.null_error);
    if (judged.row->suspect.empty()) unsuspected.push_back(judged.error);
  }
  score.errors = summarise(errors);
  score.null_errors = summarise(null_errors);
  score.unsuspected = summarise(unsuspected);
  score.suspects = static_cast<std::int64_t>(errors.size() - unsuspected.size());
}

void judge_ranking(TableScore& score) {
  if (score.quantity != Quantity::kStepTime) return;
  std::vector<Ranked> ranked;
  for (const JudgedRow& judged : score.rows) {
    ranked.push_back({group_of(*judged.row), judged.predicted, judged.row->measured});
  }
  score.ranking = rank(ranked);
}

}  // namespace

double predict_step(const Config& config) {
  const StepTime time = TimeModel(config).step(candidate_of(config));
  return time.known ? time.step_s : 0;
}

double predict(const PublishedRow& row) {
  switch (row.quantity) {
    case Quantity::kStepTime:
      return predict_step(*row.config);
    case Quantity::kPeakMemory:
      return peak_bytes(row);
    case Quantity::kCollectiveTime:
      return collective_time(row);
  }
  return 0;
}

double null_basis(const PublishedRow& row) {
  const Config& config = *row.config;
  switch (row.quantity) {
    case Quantity::kStepTime: {
      const double speedup = config.train.precision == Precision::kFp8 ? 2 : 1;
      return step_flops(config) /
             (static_cast<double>(config.parallel.ranks()) * config.cluster.peak_flops * speedup);
    }
    case Quantity::kPeakMemory:
      return state_bytes(config);
    case Quantity::kCollectiveTime:
      return row.bytes *
             collectives::bus_factor(row.collective, static_cast<std::size_t>(row.ranks));
  }
  return 0;
}

TableReport judge(const PublishedTable& table) {
  constexpr std::array kQuantities = {Quantity::kStepTime, Quantity::kPeakMemory,
                                      Quantity::kCollectiveTime};
  TableReport report;
  report.file = table.file;
  std::array<std::vector<JudgedRow>, kQuantities.size()> judged;
  for (const PublishedRow& row : table.rows) {
    if (!row.skip_reason.empty()) {
      report.skipped.push_back({row.id, row.skip_reason});
      continue;
    }
    const double predicted = predict(row);
    if (predicted > 0) {
      judged[static_cast<std::size_t>(row.quantity)].push_back({&row, predicted, 0, 0});
    } else {
      report.skipped.push_back({row.id, "a rate of its cluster is unknown"});
    }
  }
  for (const Quantity quantity : kQuantities) {
    std::vector<JudgedRow>& rows = judged[static_cast<std::size_t>(quantity)];
    if (rows.empty()) continue;
    TableScore& score = report.scores.emplace_back();
    score.file = table.file;
    score.quantity = quantity;
    score.rows = std::move(rows);
    judge_errors(score);
    judge_ranking(score);
  }
  return report;
}

}  // namespace nqd::planner

#include "planner/plan/operations.h"

#include <cmath>
#include <string>

#include "base/units.h"
#include "planner/config/field.h"
#include "planner/text.h"

namespace nqd::planner {
namespace {

constexpr double kSecondsPerDay = 86400;
constexpr double kSecondsPerHour = 3600;

double square(double value) { return value * value; }

double picture_bytes(const ModelSpec& model) {
  const auto size = static_cast<double>(model.image.size);
  const auto channels = static_cast<double>(model.image.channels);
  if (model.family == "edsr") {
    const double scale = static_cast<double>(model.image.scale);
    return channels * square(size) * (1 + square(scale));
  }
  const double condition =
      model.family == "unet" ? static_cast<double>(model.image.condition_channels) : 0;
  return (channels + condition) * square(size);
}

double nodes_in_use(const Config& config) {
  return std::ceil(static_cast<double>(config.parallel.ranks()) /
                   static_cast<double>(config.cluster.gpus_per_node));
}

Diagnostic warning(std::string code, std::string path, std::string message, std::string hint) {
  Diagnostic diagnostic;
  diagnostic.code = std::move(code);
  diagnostic.severity = Severity::kWarning;
  diagnostic.path = std::move(path);
  diagnostic.message = std::move(message);
  diagnostic.hint = std::move(hint);
  return diagnostic;
}

}  // namespace

double sample_bytes(const ModelSpec& model) {
  const auto rows = static_cast<double>(model.sequence);
  if (model.family == "gpt" || model.family == "llama" || model.family == "moe") return 4 * rows;
  if (model.family == "timeseries") return 4 * rows * static_cast<double>(model.input_features);
  if (model.family == "vit" || model.family == "edsr" || model.family == "unet") {
    return picture_bytes(model);
  }
  return 0;
}

OperationsPlan plan_operations(const Config& config, const TimePlan& time) {
  OperationsPlan plan;
  const auto ranks = static_cast<double>(config.parallel.ranks());
  plan.cost_per_hour = config.cluster.price_per_gpu_hour * ranks;
  plan.ingest_bytes_per_s_per_node =
      time.samples_per_s * sample_bytes(config.model) / nodes_in_use(config);
  if (config.train.tokens > 0 && time.tokens_per_s > 0) {
    const double seconds = config.train.tokens / time.tokens_per_s;
    plan.days_to_tokens = seconds / kSecondsPerDay;
    plan.cost_to_tokens = plan.cost_per_hour * seconds / kSecondsPerHour;
  }
  return plan;
}

std::vector<Diagnostic> check_operations(const Config& config, const OperationsPlan& operations) {
  std::vector<Diagnostic> findings;
  const auto batch = static_cast<double>(config.train.global_batch_size);
  const double noise = config.train.noise_scale;
  if (noise > 0 && batch > noise) {
    // steps(B) ∝ 1 + noise/B, so that samples, and GPU-hours, grow as B + noise.
    const double more = (batch + noise) / (2 * noise) - 1;
    findings.push_back(warning(
        "NQD1310", "train.global_batch_size",
        "global_batch_size = " + number_text(batch) + " is above the gradient noise scale of " +
            number_text(noise) + " sequences: against a batch of that size the same loss takes " +
            percent(more) + " more samples",
        "set train.global_batch_size to at most " + number_text(std::floor(noise)) +
            ", or accept it where time matters more than GPU-hours"));
  }
  const double supply = config.cluster.ingest_bytes_per_s;
  const double need = operations.ingest_bytes_per_s_per_node;
  if (supply > 0 && need > supply) {
    findings.push_back(
        warning("NQD1311", "cluster.ingest_bytes_per_s",
                "a node reads " + format_bytes(need) + " a second, but its storage delivers " +
                    format_bytes(supply) + ": the input binds, and more ranks only wait longer",
                "keep the data on local disks, compress it, or plan for fewer ranks"));
  }
  return findings;
}

}  // namespace nqd::planner

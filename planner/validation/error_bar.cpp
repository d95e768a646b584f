#include "planner/validation/error_bar.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <compare>
#include <map>
#include <string>

#include "planner/import/published/published.h"
#include "planner/import/published/shipped.h"
#include "planner/validation/evaluate.h"

namespace nqd::planner {
namespace {

// Fewer runs than this say little about the next one.
constexpr std::int64_t kFewestRuns = 5;

// What a run is judged with: the device, whether it has experts, and, where they are not empty,
// the precision of its products and the stack.
struct Kind {
  std::string device;
  bool experts = false;
  std::string precision;
  std::string stack;
  auto operator<=>(const Kind&) const = default;
};

// From the narrowest to the widest.
std::array<Kind, 3> kinds_of(const Config& config) {
  const bool experts = config.model.moe.experts > 0;
  const std::string precision(config.train.precision == Precision::kFp8 ? "8-bit" : "16-bit");
  const std::string& device = config.cluster.gpu;
  return {Kind{device, experts, precision, config.stack.preset},
          {device, experts, precision, ""},
          {device, experts, "", ""}};
}

std::string source_text(const Kind& kind, std::int64_t runs) {
  return std::to_string(runs) + " published " +
         (kind.precision.empty() ? "" : kind.precision + " ") + "runs of " +
         (kind.experts ? "models with experts" : "dense models") + " on " + kind.device +
         (kind.stack.empty() ? "" : " with " + kind.stack);
}

void count(ErrorBar& bar, double error) {
  bar.mean_fraction += error;
  bar.largest_fraction = std::max(bar.largest_fraction, error);
  ++bar.runs;
}

std::map<Kind, ErrorBar> judge_published() {
  std::map<Kind, ErrorBar> bars;
  for (const ShippedFile& file : shipped_tables()) {
    const PublishedTable table =
        read_published_text(std::string(file.text), std::string(file.name));
    for (const PublishedRow& row : table.rows) {
      const bool counts = row.skip_reason.empty() && row.suspect.empty() &&
                          row.not_fitted.empty() && row.quantity == Quantity::kStepTime &&
                          row.measured > 0;
      if (!counts) continue;
      const double predicted = predict(row);
      if (predicted <= 0) continue;
      const double error = std::abs(predicted / row.measured - 1);
      for (const Kind& kind : kinds_of(*row.config)) count(bars[kind], error);
    }
  }
  for (auto& [kind, bar] : bars) {
    bar.mean_fraction /= static_cast<double>(bar.runs);
    bar.source = source_text(kind, bar.runs);
  }
  return bars;
}

}  // namespace

ErrorBar step_error_bar(const Config& config) {
  // No published run is of another family.
  if (!is_transformer(config.model)) return {};
  static const std::map<Kind, ErrorBar> bars = judge_published();
  for (const Kind& kind : kinds_of(config)) {
    const auto found = bars.find(kind);
    if (found != bars.end() && found->second.runs >= kFewestRuns) return found->second;
  }
  return {};
}

void add_error_bar(Plan& plan) {
  if (plan.time.step_s <= 0) return;
  const ClusterSpec& cluster = plan.config.cluster;
  ErrorBar bar;
  if (cluster.calibration_source.empty()) bar = step_error_bar(plan.config);
  if (bar.runs == 0 && !cluster.curves.empty()) {
    for (const CalibratedCurve& curve : cluster.curves) {
      const double miss =
          curve.points.empty() ? curve.max_residual_fraction : curve.held_out_fraction;
      bar.mean_fraction = std::max(bar.mean_fraction, miss);
    }
    bar.source = "the largest miss of the calibrated curves";
  }
  plan.time.error_bar_fraction = bar.mean_fraction;
  plan.time.error_bar_source = bar.source;
}

}  // namespace nqd::planner

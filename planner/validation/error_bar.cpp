#include "planner/validation/error_bar.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "planner/import/published/published.h"
#include "planner/import/published/shipped.h"
#include "planner/validation/evaluate.h"

namespace nqd::planner {
namespace {

// Device and stack; an empty stack stands for all of them.
using Kind = std::pair<std::string, std::string>;

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
                          row.quantity == Quantity::kStepTime && row.measured > 0;
      if (!counts) continue;
      const double predicted = predict(row);
      if (predicted <= 0) continue;
      const double error = std::abs(predicted / row.measured - 1);
      count(bars[{row.config->cluster.gpu, row.config->stack.preset}], error);
      count(bars[{row.config->cluster.gpu, ""}], error);
    }
  }
  for (auto& [kind, bar] : bars) {
    bar.mean_fraction /= static_cast<double>(bar.runs);
    bar.source = std::to_string(bar.runs) + " published runs of " + kind.first +
                 (kind.second.empty() ? "" : " with " + kind.second);
  }
  return bars;
}

}  // namespace

ErrorBar step_error_bar(const Config& config) {
  static const std::map<Kind, ErrorBar> bars = judge_published();
  for (const std::string& stack : {config.stack.preset, std::string()}) {
    const auto found = bars.find({config.cluster.gpu, stack});
    if (found != bars.end()) return found->second;
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
      bar.mean_fraction = std::max(bar.mean_fraction, curve.max_residual_fraction);
    }
    bar.source = "the largest residual of the calibrated curves";
  }
  plan.time.error_bar_fraction = bar.mean_fraction;
  plan.time.error_bar_source = bar.source;
}

}  // namespace nqd::planner

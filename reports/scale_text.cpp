#include <algorithm>
#include <sstream>

#include "base/units.h"
#include "reports/json_writer.h"
#include "reports/page/format.h"
#include "reports/scale_json.h"

namespace nqd::reports {
namespace {

using engine::MeanInterval;
using engine::ScaleFigures;
using engine::ScalePoint;
using engine::ScaleRegime;
using engine::ScaleResult;

std::string listed(const std::vector<std::int64_t>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (i > 0) text += i + 1 == numbers.size() ? " and " : ", ";
    text += std::to_string(numbers[i]);
  }
  return text;
}

std::string range(const MeanInterval& interval, double scale, int digits) {
  if (!interval.low) return "-";
  return fixed(scale * *interval.low, digits) + " to " + fixed(scale * *interval.high, digits);
}

void print_row(std::ostringstream& out, const std::vector<std::string>& words) {
  static constexpr std::size_t kWidths[] = {6, 6, 10, 7, 12, 12, 20, 12, 17, 12, 10};
  for (std::size_t i = 0; i < words.size(); ++i) {
    out << words[i];
    if (i + 1 == words.size()) break;
    const std::size_t width = kWidths[i];
    out << std::string(words[i].size() < width ? width - words[i].size() : 1, ' ');
  }
  out << '\n';
}

std::vector<std::string> row_of(const ScalePoint& point, const ScaleFigures& figures) {
  const std::string efficiency = point.oversubscribed ? "oversubscr."
                                 : figures.efficiency
                                     ? fixed(100 * figures.efficiency->mean, 1) + " %"
                                     : "-";
  return {std::to_string(point.ranks),
          point.engine,
          point.mesh,
          std::to_string(point.global_batch),
          format_seconds(engine::mean(figures.step_s)),
          fixed(figures.throughput.mean, 0),
          range(figures.throughput, 1, 0),
          efficiency,
          figures.efficiency ? range(*figures.efficiency, 100, 1) : "-",
          point.predicted_step_s > 0 ? format_seconds(point.predicted_step_s) : "-",
          figures.heldout ? fixed(figures.heldout->mean, 4) : "-",
          figures.quality ? figures.quality->verdict : "-"};
}

void print_failures(std::ostringstream& out, const ScalePoint& point, const ScaleFigures& figures) {
  const std::string where = "failed: " + std::string(name(point.regime)) + ", " +
                            std::to_string(point.ranks) + " ranks: ";
  if (figures.quality && !figures.quality->ok) {
    const engine::ScaleQuality& quality = *figures.quality;
    out << where << quality.test << ": " << quality.verdict << ", held-out loss differs by "
        << quality.difference.mean << " on average";
    if (quality.p) out << ", margin " << quality.margin << ", p = " << *quality.p;
    out << '\n';
  }
  for (const engine::ScaleRun& run : point.runs) {
    for (const std::string& category : run.audit_failures) {
      out << where << "seed " << run.seed << ", audit of " << category << '\n';
    }
  }
}

}  // namespace

std::string efficiency_claim(const ScaleResult& result, ScaleRegime regime) {
  std::vector<std::int64_t> claimed;
  std::vector<std::int64_t> left_out;
  for (const ScalePoint& point : result.points) {
    if (point.regime != regime) continue;
    const bool counts = !point.oversubscribed && !scale_base(result, point).oversubscribed;
    (counts ? claimed : left_out).push_back(point.ranks);
  }
  std::string text = claimed.empty()
                         ? "Efficiency is claimed for no count of ranks"
                         : "Efficiency is claimed for " + listed(claimed) +
                               (claimed.size() == 1 && claimed.front() == 1 ? " rank" : " ranks");
  if (left_out.empty()) return text + ".";
  return text + "; " + listed(left_out) + " ranks of " + std::to_string(result.threads) +
         (result.threads == 1 ? " thread" : " threads") + " are more than " +
         std::to_string(result.cpus) + " CPUs can run at once.";
}

std::string quality_test(const ScaleResult& result, ScaleRegime regime) {
  if (regime == ScaleRegime::kEqualGlobalBatch && result.canonical) {
    return "Quality: canonical numerics, so that losses and weights of every count of ranks have "
           "to "
           "have the bits of the fewest.";
  }
  const std::string setting = " over " + std::to_string(result.points.front().runs.size()) +
                              " seeds, margin " + json_number(100 * result.margin) + " %" +
                              " of the mean held-out loss of the fewest ranks, level " +
                              fixed(engine::kScaleLevel, 2) + ".";
  if (regime == ScaleRegime::kEqualGlobalBatch) {
    return "Quality: equivalence by two one-sided paired t-tests (TOST)" + setting;
  }
  return "Quality: not worse by a one-sided paired t-test (more ranks see more samples in a "
         "step)" +
         setting;
}

std::string scale_text(const ScaleResult& result) {
  const std::vector<ScaleFigures> figures = scale_figures(result);
  std::ostringstream out;
  out << result.points.front().runs.size() << " seeds, " << result.warmup
      << " steps of warm-up and " << result.steps << " measured, " << result.launcher << ", "
      << (result.canonical ? "canonical" : "fast") << " numerics, " << result.cpus << " CPUs\n";
  for (std::size_t i = 0; i < figures.size(); ++i) {
    const ScalePoint& point = result.points[i];
    if (&scale_base(result, point) == &point) {
      out << '\n' << name(point.regime) << '\n';
      print_row(out, {"ranks", "engine", "mesh", "batch", "step", "tokens/s", "95 %", "efficiency",
                      "95 %", "predicted", "held-out", "quality"});
    }
    print_row(out, row_of(point, figures[i]));
    const bool last = i + 1 == figures.size() || result.points[i + 1].regime != point.regime;
    if (!last) continue;
    out << efficiency_claim(result, point.regime) << '\n'
        << quality_test(result, point.regime) << '\n';
  }
  for (std::size_t i = 0; i < figures.size(); ++i) {
    print_failures(out, result.points[i], figures[i]);
  }
  out << (scale_ok(result, figures) ? "\nquality holds at every point\n"
                                    : "\nquality is not shown at every point\n");
  return out.str();
}

}  // namespace nqd::reports

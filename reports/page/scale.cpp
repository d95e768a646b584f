#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/units.h"
#include "reports/page/format.h"
#include "reports/page/sections.h"
#include "reports/scale_json.h"

namespace nqd::reports {
namespace {

using engine::MeanInterval;
using engine::ScaleFigures;
using engine::ScalePoint;
using engine::ScaleQuality;
using engine::ScaleRegime;
using engine::ScaleResult;

// The points of one regime with their figures.
struct Curve {
  const ScaleResult& result;
  ScaleRegime regime;
  std::vector<const ScalePoint*> points;
  std::vector<ScaleFigures> figures;
};

std::vector<Curve> curves_of(const ScaleResult& result) {
  const std::vector<ScaleFigures> figures = scale_figures(result);
  std::vector<Curve> curves;
  for (std::size_t i = 0; i < figures.size(); ++i) {
    const ScalePoint& point = result.points[i];
    if (curves.empty() || curves.back().regime != point.regime) {
      curves.push_back({result, point.regime, {}, {}});
    }
    curves.back().points.push_back(&point);
    curves.back().figures.push_back(figures[i]);
  }
  return curves;
}

std::string range(const std::optional<MeanInterval>& interval, double scale, int digits) {
  if (!interval || !interval->low) return "–";
  return fixed(scale * *interval->low, digits) + " to " + fixed(scale * *interval->high, digits);
}

Table throughput_table(const Curve& curve) {
  Table table{{"Ranks", "Mesh", "Batch", "Step, median", "Tokens/s", "95 %", "Predicted tokens/s"},
              {}};
  for (std::size_t i = 0; i < curve.points.size(); ++i) {
    const ScalePoint& point = *curve.points[i];
    const ScaleFigures& figures = curve.figures[i];
    const double predicted = static_cast<double>(point.tokens) / point.predicted_step_s;
    table.rows.push_back({number_cell(std::to_string(point.ranks)),
                          {point.engine + " " + point.mesh},
                          number_cell(std::to_string(point.global_batch)),
                          number_cell(format_seconds(engine::mean(figures.step_s))),
                          number_cell(fixed(figures.throughput.mean, 0)),
                          number_cell(range(figures.throughput, 1, 0)),
                          number_cell(point.predicted_step_s > 0 ? fixed(predicted, 0) : "–")});
  }
  return table;
}

LineChart throughput_chart(const Curve& curve) {
  LineChart chart{.title = "Throughput, " + std::string(name(curve.regime)),
                  .caption =
                      "Mean over seeds with its 95 % interval. Ideal: the fewest ranks' rate times "
                      "the ranks. Points of more ranks than CPUs are drawn apart.",
                  .x = {"Ranks", "linear"},
                  .y = {"Tokens/s", "linear"},
                  .series = {},
                  .table = throughput_table(curve)};
  Series own{"measured", "points", {}};
  Series crowded{"measured, oversubscribed", "points", {}};
  Series ideal{"ideal", "dashed", {}};
  Series predicted{"predicted", "dashed", {}};
  const double first_rate =
      curve.figures.front().throughput.mean / static_cast<double>(curve.points.front()->ranks);
  for (std::size_t i = 0; i < curve.points.size(); ++i) {
    const ScalePoint& point = *curve.points[i];
    const MeanInterval& rate = curve.figures[i].throughput;
    const auto ranks = static_cast<double>(point.ranks);
    (point.oversubscribed ? crowded : own)
        .points.push_back(
            {ranks, rate.mean, rate.low.value_or(rate.mean), rate.high.value_or(rate.mean)});
    const double at_best = first_rate * ranks;
    ideal.points.push_back({ranks, at_best, at_best, at_best});
    if (point.predicted_step_s > 0) {
      const double planned = static_cast<double>(point.tokens) / point.predicted_step_s;
      predicted.points.push_back({ranks, planned, planned, planned});
    }
  }
  for (Series* series : {&own, &crowded, &ideal, &predicted}) {
    if (!series->points.empty()) chart.series.push_back(std::move(*series));
  }
  return chart;
}

LineChart heldout_chart(const Curve& curve) {
  LineChart chart{.title = "Held-out loss, " + std::string(name(curve.regime)),
                  .caption = "After the last step, a line for each seed.",
                  .x = {"Ranks", "linear"},
                  .y = {"Held-out loss", "linear"},
                  .series = {},
                  .table = {{"Seed"}, {}}};
  for (const ScalePoint* point : curve.points) {
    chart.table.headers.push_back(std::to_string(point->ranks) + " ranks");
  }
  for (std::size_t run = 0; run < curve.points.front()->runs.size(); ++run) {
    const std::string seed = std::to_string(curve.points.front()->runs[run].seed);
    Series series{"seed " + seed, "points", {}};
    std::vector<Cell> row = {number_cell(seed)};
    for (const ScalePoint* point : curve.points) {
      const double loss = point->runs[run].heldout_loss.value_or(NAN);
      series.points.push_back({static_cast<double>(point->ranks), loss, loss, loss});
      row.push_back(number_cell(fixed(loss, 6)));
    }
    chart.series.push_back(std::move(series));
    chart.table.rows.push_back(std::move(row));
  }
  return chart;
}

std::string scientific(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2e", value);
  return text;
}

Table efficiency_table(const Curve& curve) {
  Table table{{"Ranks", "Efficiency", "95 %", "Quality", "Difference of loss", "p", "p of Welch"},
              {}};
  for (std::size_t i = 0; i < curve.points.size(); ++i) {
    const ScalePoint& point = *curve.points[i];
    const ScaleFigures& figures = curve.figures[i];
    const std::optional<ScaleQuality>& quality = figures.quality;
    Cell efficiency = number_cell("–");
    if (figures.efficiency) efficiency.text = fixed(100 * figures.efficiency->mean, 1) + " %";
    if (point.oversubscribed) efficiency = {"oversubscribed", true, Tone::kWarning};
    table.rows.push_back(
        {number_cell(std::to_string(point.ranks)), efficiency,
         number_cell(range(figures.efficiency, 100, 1)),
         quality ? Cell{quality->verdict, false, quality->ok ? Tone::kGood : Tone::kBad}
                 : Cell{"–"},
         number_cell(quality ? scientific(quality->difference.mean) : "–"),
         number_cell(quality && quality->p ? scientific(*quality->p) : "–"),
         number_cell(quality && quality->welch ? scientific(*quality->welch) : "–")});
  }
  return table;
}

void add_audit_failures(Page& page, const Curve& curve) {
  std::vector<std::string> lines;
  for (const ScalePoint* point : curve.points) {
    for (const engine::ScaleRun& run : point->runs) {
      for (const std::string& category : run.audit_failures) {
        lines.push_back(std::to_string(point->ranks) + " ranks, seed " + std::to_string(run.seed) +
                        ": " + category);
      }
    }
  }
  if (!lines.empty()) page.callout(Tone::kBad, "The audit is not exact", lines);
}

}  // namespace

void add_scale(Page& page, const Documents& documents) {
  const auto has_points = [](const Evidence& document) { return !document.scale.points.empty(); };
  const auto campaigns = std::count_if(documents.begin(), documents.end(), has_points);
  if (campaigns == 0) return;
  page.begin_section("scale", "Scaling");
  for (const Evidence& document : documents) {
    if (!has_points(document)) continue;
    const ScaleResult& result = document.scale;
    if (campaigns > 1) page.heading(document_name(document, documents));
    page.paragraph(document.envelope.config_path + ", " +
                   std::to_string(result.points.front().runs.size()) + " seeds, " +
                   std::to_string(result.warmup) + " steps of warm-up and " +
                   std::to_string(result.steps) + " measured, " + result.launcher + ", " +
                   (result.canonical ? "canonical" : "fast") + " numerics, " +
                   std::to_string(result.threads) + " threads a rank.");
    for (const Curve& curve : curves_of(result)) {
      page.heading(name(curve.regime));
      page.begin_charts();
      page.chart(throughput_chart(curve));
      page.chart(heldout_chart(curve));
      page.end_charts();
      page.table(efficiency_table(curve));
      page.paragraph(efficiency_claim(result, curve.regime) + " " +
                     quality_test(result, curve.regime));
      add_audit_failures(page, curve);
    }
  }
  page.end_section();
}

}  // namespace nqd::reports

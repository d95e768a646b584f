#include <algorithm>
#include <cmath>
#include <optional>

#include "base/units.h"
#include "reports/page/format.h"
#include "reports/page/sections.h"

namespace nqd::reports {
namespace {

using collectives::BenchRow;

// One line of a chart: an algorithm of a document.
struct Line {
  std::string label;
  std::vector<const BenchRow*> rows;  // ascending size
};
struct Sweep {
  std::string collective;
  int ranks = 0;
  std::vector<Line> lines;
};

Line& line_of(Sweep& sweep, const std::string& label) {
  const auto found = std::find_if(sweep.lines.begin(), sweep.lines.end(),
                                  [&](const Line& line) { return line.label == label; });
  return found != sweep.lines.end() ? *found : sweep.lines.emplace_back(Line{label, {}});
}

std::vector<Sweep> collect_sweeps(const Documents& documents) {
  const auto benches = std::count_if(documents.begin(), documents.end(),
                                     [](const Evidence& d) { return !d.bench.rows.empty(); });
  std::vector<Sweep> sweeps;
  for (const Evidence& document : documents) {
    for (const BenchRow& row : document.bench.rows) {
      auto found = std::find_if(sweeps.begin(), sweeps.end(), [&](const Sweep& sweep) {
        return sweep.collective == row.collective && sweep.ranks == row.ranks;
      });
      if (found == sweeps.end()) {
        found = sweeps.insert(sweeps.end(), {row.collective, row.ranks, {}});
      }
      std::string label = row.algorithm + " · " + row.backend;
      if (benches > 1) label += " · " + document_name(document, documents);
      line_of(*found, label).rows.push_back(&row);
    }
  }
  for (Sweep& sweep : sweeps) {
    for (Line& line : sweep.lines) {
      std::stable_sort(line.rows.begin(), line.rows.end(),
                       [](const BenchRow* a, const BenchRow* b) {
                         return a->effective_bytes < b->effective_bytes;
                       });
    }
  }
  return sweeps;
}

LineChart bandwidth_chart(const Sweep& sweep) {
  LineChart chart{
      .title = "Bus bandwidth",
      .caption =
          "Median, with a band from the fastest call to the 95th percentile; "
          "higher is better.",
      .x = {"Message size", "bytes"},
      .y = {"GB/s", "log"},
      .series = {},
      .table = {{"Algorithm", "Size", "busbw GB/s", "algbw GB/s", "Wrong elements"}, {}}};
  for (const Line& line : sweep.lines) {
    Series series{line.label, "line", {}};
    for (const BenchRow* row : line.rows) {
      series.points.push_back({static_cast<double>(row->effective_bytes), row->busbw_gbps,
                               row->busbw_gbps * row->p50_s / row->p95_s,
                               row->busbw_gbps * row->p50_s / row->min_s});
      chart.table.rows.push_back(
          {{line.label},
           number_cell(short_bytes(static_cast<double>(row->effective_bytes))),
           number_cell(fixed(row->busbw_gbps, 3)),
           number_cell(fixed(row->algbw_gbps, 3)),
           {row->checked ? format_count(row->wrong) : "not checked", true,
            row->wrong > 0 ? Tone::kBad : Tone::kPlain}});
    }
    chart.series.push_back(std::move(series));
  }
  return chart;
}

LineChart time_chart(const Sweep& sweep) {
  LineChart chart{.title = "Time of one call",
                  .caption =
                      "Median, with a band from the fastest call to the 95th percentile; "
                      "lower is better.",
                  .x = {"Message size", "bytes"},
                  .y = {"Seconds", "seconds"},
                  .series = {},
                  .table = {{"Algorithm", "Size", "Min", "p50", "p95", "p99", "Max", "Calls"}, {}}};
  for (const Line& line : sweep.lines) {
    Series series{line.label, "line", {}};
    for (const BenchRow* row : line.rows) {
      series.points.push_back(
          {static_cast<double>(row->effective_bytes), row->p50_s, row->min_s, row->p95_s});
      chart.table.rows.push_back(
          {{line.label},
           number_cell(short_bytes(static_cast<double>(row->effective_bytes))),
           number_cell(format_seconds(row->min_s)),
           number_cell(format_seconds(row->p50_s)),
           number_cell(format_seconds(row->p95_s)),
           number_cell(format_seconds(row->p99_s)),
           number_cell(format_seconds(row->max_s)),
           number_cell(std::to_string(row->samples_s.size()))});
    }
    chart.series.push_back(std::move(series));
  }
  return chart;
}

// The price over its own range only: outside it would be an extrapolation.
Series fitted_series(const planner::CalibratedCurve& curve) {
  constexpr int kSamples = 48;
  const bool by_points = !curve.points.empty();
  Series series{
      curve.algorithm + (by_points ? ", priced between sizes" : ", fitted α–β"), "dashed", {}};
  const double from = curve.pieces.front().from_bytes;
  const double to = curve.pieces.back().to_bytes;
  if (!(from > 0 && to > from)) return series;
  for (int i = 0; i <= kSamples; ++i) {
    const double bytes =
        std::min(to, from * std::pow(to / from, i / static_cast<double>(kSamples)));
    bool extrapolated = false;
    const double seconds = planner::curve_time_s(curve, bytes, &extrapolated);
    series.points.push_back({bytes, seconds, seconds, seconds});
  }
  return series;
}

std::optional<std::size_t> line_of_algorithm(const Sweep& sweep, const std::string& algorithm) {
  for (std::size_t i = 0; i < sweep.lines.size(); ++i) {
    if (sweep.lines[i].rows.front()->algorithm == algorithm) return i;
  }
  return std::nullopt;
}

std::vector<planner::CalibratedCurve> curves_of(const Documents& documents) {
  std::vector<planner::CalibratedCurve> curves;
  for (const Evidence& document : documents) {
    for (const planner::CalibratedCurve& curve : document.calibration.curves) {
      if (!curve.pieces.empty()) curves.push_back(curve);
    }
  }
  return curves;
}

Table calibration_table(const std::vector<planner::CalibratedCurve>& curves) {
  Table table{{"Curve", "Ranks", "From", "To", "α", "1/β GB/s", "Worst residual"}, {}};
  for (const planner::CalibratedCurve& curve : curves) {
    for (const planner::LinkPiece& piece : curve.pieces) {
      const double rate = piece.beta_s_per_byte > 0 ? 1e-9 / piece.beta_s_per_byte : INFINITY;
      table.rows.push_back(
          {{curve.collective + " " + curve.algorithm},
           number_cell(std::to_string(curve.ranks)),
           number_cell(short_bytes(piece.from_bytes)),
           number_cell(short_bytes(piece.to_bytes)),
           number_cell(format_seconds(piece.alpha_s)),
           number_cell(fixed(rate, 3)),
           {fixed(100 * curve.max_residual_fraction, 1) + " %", true,
            curve.max_residual_fraction > planner::kResidualWarning ? Tone::kWarning
                                                                    : Tone::kPlain}});
    }
  }
  return table;
}

}  // namespace

void add_fabric(Page& page, const Documents& documents) {
  const std::vector<Sweep> sweeps = collect_sweeps(documents);
  const std::vector<planner::CalibratedCurve> curves = curves_of(documents);
  if (sweeps.empty() && curves.empty()) return;
  page.begin_section(
      "fabric", "Fabric",
      "What a collective costs by message size: verified, then timed; every sample is "
      "the slowest rank's.");
  for (const Sweep& sweep : sweeps) {
    page.heading(sweep.collective + ", " + std::to_string(sweep.ranks) + " ranks");
    LineChart time = time_chart(sweep);
    for (const planner::CalibratedCurve& curve : curves) {
      if (curve.collective != sweep.collective || curve.ranks != sweep.ranks) continue;
      time.series.push_back(fitted_series(curve));
      time.series.back().like = line_of_algorithm(sweep, curve.algorithm);
    }
    page.begin_charts();
    page.chart(bandwidth_chart(sweep));
    page.chart(time);
    page.end_charts();
  }
  if (!curves.empty()) {
    page.heading("Calibration: time = α + β · bytes");
    page.table(calibration_table(curves));
  }
  page.end_section();
}

void add_compute(Page& page, const Documents& documents) {
  BarChart chart{
      .title = "Matrix products",
      .caption = "Rate at the median time of each shape.",
      .x = {"GFLOP/s", "linear"},
      .categories = {},
      .bars = {{"measured", {}}},
      .table = {{"Shape m × n × k", "Layout", "Library", "Threads", "p50", "GFLOP/s"}, {}}};
  std::vector<std::pair<std::string, std::string>> rates;
  for (const Evidence& document : documents) {
    for (const collectives::GemmRow& row : document.bench.gemm_rows) {
      const std::string shape =
          std::to_string(row.m) + " × " + std::to_string(row.n) + " × " + std::to_string(row.k);
      chart.categories.push_back(shape + " " + row.layout);
      chart.bars.front().values.push_back(row.gflops);
      chart.table.rows.push_back({{shape},
                                  {row.layout},
                                  {row.library},
                                  number_cell(std::to_string(row.threads)),
                                  number_cell(format_seconds(row.p50_s)),
                                  number_cell(fixed(row.gflops, 1))});
    }
    if (document.bench.memory_bandwidth_bytes_per_s > 0) {
      rates.emplace_back("Memory bandwidth (" + document_name(document, documents) + ")",
                         fixed(document.bench.memory_bandwidth_bytes_per_s / kGB, 2) + " GB/s");
    }
    if (document.calibration.gemm_flops > 0) {
      rates.emplace_back("GEMM rate of the calibration",
                         fixed(document.calibration.gemm_flops / 1e9, 1) + " GFLOP/s a rank");
    }
  }
  if (chart.categories.empty() && rates.empty()) return;
  page.begin_section("compute", "Compute");
  if (!rates.empty()) page.definitions(rates);
  if (!chart.categories.empty()) {
    page.begin_charts();
    page.chart(chart);
    page.end_charts();
  }
  page.end_section();
}

}  // namespace nqd::reports

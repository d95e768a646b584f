#include <algorithm>
#include <cmath>

#include "base/units.h"
#include "reports/page/format.h"
#include "reports/page/sections.h"
#include "reports/summary.h"

namespace nqd::reports {
namespace {

using engine::StepRecord;

// More points than a screen has pixels only make the page heavy. Beyond this many, each bucket of
// steps keeps its lowest and highest point, so that no spike is lost.
constexpr std::size_t kMostPoints = 1600;
constexpr std::size_t kMostTableRows = 200;

std::vector<Point> thinned(const std::vector<Point>& points) {
  if (points.size() <= kMostPoints) return points;
  const std::size_t buckets = kMostPoints / 2;
  std::vector<Point> kept;
  for (std::size_t i = 0; i < buckets; ++i) {
    const auto begin = points.begin() + static_cast<std::ptrdiff_t>(i * points.size() / buckets);
    const auto end =
        points.begin() + static_cast<std::ptrdiff_t>((i + 1) * points.size() / buckets);
    auto [low, high] =
        std::minmax_element(begin, end, [](const Point& a, const Point& b) { return a.y < b.y; });
    if (high < low) std::swap(low, high);
    kept.push_back(*low);
    if (high != low) kept.push_back(*high);
  }
  return kept;
}

template <typename Value>
Series step_series(const engine::TrainResult& train, const std::string& label, Value value) {
  Series series{label, "line", {}};
  for (const StepRecord& step : train.steps) {
    const double y = value(step);
    series.points.push_back({static_cast<double>(step.step), y, y, y});
  }
  series.points = thinned(series.points);
  return series;
}

// Every n-th step, the first and the last among them.
template <typename Row>
Table step_table(const engine::TrainResult& train, std::vector<std::string> headers, Row row) {
  Table table{std::move(headers), {}};
  const std::size_t stride = (train.steps.size() + kMostTableRows - 1) / kMostTableRows;
  for (std::size_t i = 0; i < train.steps.size(); ++i) {
    if (i % stride == 0 || i + 1 == train.steps.size()) table.rows.push_back(row(train.steps[i]));
  }
  return table;
}

LineChart loss_chart(const engine::TrainResult& train) {
  LineChart chart{
      .title = "Loss",
      .caption =
          "Cross-entropy in nats a token. Training: mean of each global batch; "
          "held-out: text that is never trained on.",
      .x = {"Step", "linear"},
      .y = {"Loss", "linear"},
      .series = {step_series(train, "training", [](const StepRecord& s) { return s.loss; })},
      .table = {{"Step", "Training loss", "Held-out loss"}, {}}};
  Series heldout{"held-out", "points", {}};
  for (const engine::EvalRecord& eval : train.evals) {
    heldout.points.push_back({static_cast<double>(eval.step), eval.loss, eval.loss, eval.loss});
    chart.table.rows.push_back({number_cell(std::to_string(eval.step)), number_cell(""),
                                number_cell(fixed(eval.loss, 4))});
  }
  const Table steps = step_table(train, {}, [](const StepRecord& step) {
    return std::vector<Cell>{number_cell(std::to_string(step.step)),
                             number_cell(fixed(step.loss, 4)), number_cell("")};
  });
  chart.table.rows.insert(chart.table.rows.end(), steps.rows.begin(), steps.rows.end());
  if (!heldout.points.empty()) chart.series.push_back(std::move(heldout));
  return chart;
}

LineChart time_chart(const engine::TrainResult& train) {
  return {
      .title = "Step time",
      .caption =
          "The slowest rank's; what of it rank 0 spent waiting for gradients is drawn "
          "below it.",
      .x = {"Step", "linear"},
      .y = {"Milliseconds", "linear"},
      .series = {step_series(train, "step", [](const StepRecord& s) { return 1e3 * s.step_s; }),
                 step_series(train, "exposed communication",
                             [](const StepRecord& s) { return 1e3 * s.exposed_communication_s; })},
      .table = step_table(
          train, {"Step", "Step time", "Exposed communication"}, [](const StepRecord& s) {
            return std::vector<Cell>{number_cell(std::to_string(s.step)),
                                     number_cell(format_seconds(s.step_s)),
                                     number_cell(format_seconds(s.exposed_communication_s))};
          })};
}

double tokens_per_s(const StepRecord& step) {
  return step.step_s > 0 ? static_cast<double>(step.tokens) / step.step_s : NAN;
}

LineChart throughput_chart(const engine::TrainResult& train) {
  return {.title = "Throughput",
          .caption = "Tokens of the global batch by step time.",
          .x = {"Step", "linear"},
          .y = {"Tokens/s", "linear"},
          .series = {step_series(train, "tokens/s", tokens_per_s)},
          .table = step_table(train, {"Step", "Tokens", "Tokens/s"}, [](const StepRecord& s) {
            return std::vector<Cell>{number_cell(std::to_string(s.step)),
                                     number_cell(std::to_string(s.tokens)),
                                     number_cell(fixed(tokens_per_s(s), 0))};
          })};
}

LineChart optimizer_chart(const engine::TrainResult& train) {
  return {.title = "Gradient norm",
          .caption = "Global norm before clipping.",
          .x = {"Step", "linear"},
          .y = {"Norm", "linear"},
          .series = {step_series(train, "gradient norm",
                                 [](const StepRecord& s) { return s.grad_norm; })},
          .table = step_table(train, {"Step", "Gradient norm", "Learning rate"},
                              [](const StepRecord& s) {
                                return std::vector<Cell>{number_cell(std::to_string(s.step)),
                                                         number_cell(fixed(s.grad_norm, 4)),
                                                         number_cell(fixed(s.lr, 8))};
                              })};
}

std::string resolved(const Envelope& envelope, std::string_view path) {
  for (const planner::ResolvedValue& value : envelope.resolved) {
    if (value.path == path) return value.value;
  }
  return {};
}

std::string describe(const Evidence& document) {
  const Envelope& envelope = document.envelope;
  const TrainSummary summary = summarize(document.train);
  std::string text = format_short(static_cast<double>(document.train.parameters)) +
                     " parameters, " + std::to_string(envelope.world_size_actual) + " ranks (" +
                     envelope.backend + ")";
  if (const std::string engine = resolved(envelope, "parallel.engine"); !engine.empty()) {
    text += ", engine " + engine + " on dp " + resolved(envelope, "parallel.dp") + " × tp " +
            resolved(envelope, "parallel.tp") + " × pp " + resolved(envelope, "parallel.pp");
  }
  return text + ", " + std::to_string(summary.steps) + " steps, " +
         format_count(static_cast<std::uint64_t>(summary.tokens)) + " tokens, GEMM by " +
         document.train.gemm_library + " (" + document.train.gemm_core + ").";
}

}  // namespace

void add_training(Page& page, const Documents& documents) {
  const auto has_steps = [](const Evidence& document) { return !document.train.steps.empty(); };
  const auto runs = std::count_if(documents.begin(), documents.end(), has_steps);
  if (runs == 0) return;
  page.begin_section("training", "Training");
  for (const Evidence& document : documents) {
    if (!has_steps(document)) continue;
    if (runs > 1) page.heading(document_name(document, documents));
    page.paragraph(describe(document));
    page.begin_charts();
    page.chart(loss_chart(document.train));
    page.chart(time_chart(document.train));
    page.chart(throughput_chart(document.train));
    page.chart(optimizer_chart(document.train));
    page.end_charts();
  }
  page.end_section();
}

}  // namespace nqd::reports

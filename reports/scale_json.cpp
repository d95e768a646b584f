#include "reports/scale_json.h"

#include <cmath>
#include <optional>
#include <span>

#include "reports/envelope_json.h"
#include "reports/json_writer.h"

namespace nqd::reports {
namespace {

using engine::MeanInterval;
using engine::ScaleFigures;
using engine::ScalePoint;
using engine::ScaleQuality;
using engine::ScaleResult;
using engine::ScaleRun;
using Layout = JsonWriter::Layout;

void write_interval(JsonWriter& json, std::string_view key,
                    const std::optional<MeanInterval>& interval) {
  json.key(key);
  if (!interval) {
    json.null();
    return;
  }
  json.begin_object(Layout::kInline);
  json.field("mean", interval->mean);
  json.field("low", interval->low);
  json.field("high", interval->high);
  json.end();
}

void write_quality(JsonWriter& json, const std::optional<ScaleQuality>& quality) {
  json.key("quality");
  if (!quality) {
    json.null();
    return;
  }
  json.begin_object(Layout::kInline);
  json.field("test", quality->test);
  json.field("verdict", quality->verdict);
  json.field("ok", quality->ok);
  json.field("margin", quality->margin);
  json.field("p", quality->p);
  json.field("welch_p", quality->welch);
  write_interval(json, "difference", quality->difference);
  json.end();
}

void write_run(JsonWriter& json, const ScaleRun& run, const ScaleFigures& figures,
               std::size_t index) {
  json.begin_object(Layout::kInline);
  json.field("seed", run.seed);
  json.field("step_p50_s", figures.step_s[index]);
  json.field("tokens_per_s", figures.tokens_per_s[index]);
  json.field("efficiency", figures.efficiencies.empty()
                               ? std::nullopt
                               : std::optional(figures.efficiencies[index]));
  json.field("heldout_loss", run.heldout_loss);
  json.field("weights_sha256", run.weights_sha256);
  json.key("audit_failures").begin_array(Layout::kInline);
  for (const std::string& category : run.audit_failures) json.value(category);
  json.end();
  json.field("step_s", std::span<const double>(run.step_s));
  json.end();
}

void write_point(JsonWriter& json, const ScalePoint& point, const ScaleFigures& figures) {
  json.begin_object();
  json.field("regime", name(point.regime));
  json.field("ranks", point.ranks);
  json.field("engine", point.engine);
  json.field("mesh", point.mesh);
  json.field("global_batch_size", point.global_batch);
  json.field("tokens_per_step", point.tokens);
  json.field("oversubscribed", point.oversubscribed);
  const std::optional<double> predicted = measured(point.predicted_step_s);
  json.field("predicted_step_s", predicted);
  json.field(
      "predicted_tokens_per_s",
      predicted ? std::optional(static_cast<double>(point.tokens) / *predicted) : std::nullopt);
  write_interval(json, "tokens_per_s", figures.throughput);
  write_interval(json, "efficiency", figures.efficiency);
  write_interval(json, "heldout_loss", figures.heldout);
  write_quality(json, figures.quality);
  json.key("runs").begin_array();
  for (std::size_t i = 0; i < point.runs.size(); ++i) write_run(json, point.runs[i], figures, i);
  json.end();
  json.end();
}

void check_figure(const JsonField& run, std::string_view key, double computed) {
  constexpr double kTolerance = 1e-9;  // of the text's rounding, not of the measurement
  const JsonField field = run.at(key);
  if (std::abs(field.number() - computed) <= kTolerance * std::abs(computed)) return;
  field.fail("is " + json_number(field.number()) + ", but its step_s give " + json_number(computed),
             "the document was edited or damaged; measure again");
}

ScaleRun read_run(const JsonField& json) {
  ScaleRun run;
  run.seed = json.at("seed").integer<std::int64_t>();
  for (const JsonField& seconds : json.at("step_s").items()) {
    run.step_s.push_back(seconds.number());
  }
  json.at("heldout_loss");
  if (const auto loss = json.find("heldout_loss")) run.heldout_loss = loss->number();
  run.weights_sha256 = json.at("weights_sha256").text();
  for (const JsonField& category : json.at("audit_failures").items()) {
    run.audit_failures.push_back(category.text());
  }
  return run;
}

ScalePoint read_point(const JsonField& json) {
  ScalePoint point;
  const JsonField regime = json.at("regime");
  const auto known_regime = engine::parse_scale_regime(regime.text());
  if (!known_regime) regime.fail("has an unknown value \"" + regime.text() + "\"");
  point.regime = *known_regime;
  point.ranks = json.at("ranks").integer<std::int64_t>();
  point.engine = json.at("engine").text();
  point.mesh = json.at("mesh").text();
  point.global_batch = json.at("global_batch_size").integer<std::int64_t>();
  point.tokens = json.at("tokens_per_step").integer<std::int64_t>();
  point.oversubscribed = json.at("oversubscribed").boolean();
  point.predicted_step_s = json.at("predicted_step_s").number_or(0);
  for (const JsonField& run : json.at("runs").items()) point.runs.push_back(read_run(run));
  return point;
}

// The steps that a figure is computed from are all there.
void check_runs(const JsonField& json, const ScaleResult& result) {
  const std::vector<JsonField> points = json.items();
  for (std::size_t i = 0; i < points.size(); ++i) {
    const std::vector<JsonField> runs = points[i].at("runs").items();
    const std::vector<ScaleRun>& read = result.points[i].runs;
    if (runs.empty() || runs.size() != result.points.front().runs.size()) {
      points[i].at("runs").fail("must have a run of every seed");
    }
    for (std::size_t j = 0; j < runs.size(); ++j) {
      if (static_cast<std::int64_t>(read[j].step_s.size()) != result.warmup + result.steps) {
        runs[j].at("step_s").fail("must have as many steps as were made");
      }
    }
  }
  const std::vector<ScaleFigures> figures = scale_figures(result);
  for (std::size_t i = 0; i < points.size(); ++i) {
    const std::vector<JsonField> runs = points[i].at("runs").items();
    for (std::size_t j = 0; j < runs.size(); ++j) {
      check_figure(runs[j], "step_p50_s", figures[i].step_s[j]);
      check_figure(runs[j], "tokens_per_s", figures[i].tokens_per_s[j]);
    }
  }
}

}  // namespace

std::string scale_json(const Envelope& envelope, const ScaleResult& result) {
  const std::vector<ScaleFigures> figures = scale_figures(result);
  JsonWriter json;
  json.begin_object();
  write_envelope(json, envelope);
  json.field("launcher", result.launcher);
  json.field("numerics", result.canonical ? "canonical" : "fast");
  json.field("threads", result.threads);
  json.field("cpus", result.cpus);
  json.field("warmup_steps", result.warmup);
  json.field("measured_steps", result.steps);
  json.field("margin_fraction", result.margin);
  json.key("data").begin_object(Layout::kInline);
  json.field("digest", known(result.data_digest));
  json.field("synthetic", result.data_synthetic);
  json.end();
  json.key("points").begin_array();
  for (std::size_t i = 0; i < figures.size(); ++i) write_point(json, result.points[i], figures[i]);
  json.end();
  json.field("ok", scale_ok(result, figures));
  json.end();
  return json.take();
}

ScaleResult read_scale(const JsonField& document) {
  ScaleResult result;
  result.launcher = document.at("launcher").text();
  result.canonical = document.at("numerics").text() == "canonical";
  result.threads = document.at("threads").integer<std::int64_t>();
  result.cpus = document.at("cpus").integer<std::int64_t>();
  result.warmup = document.at("warmup_steps").integer<std::int64_t>();
  result.steps = document.at("measured_steps").integer<std::int64_t>();
  result.margin = document.at("margin_fraction").number();
  result.data_digest = document.at("data").at("digest").text_or("");
  result.data_synthetic = document.at("data").at("synthetic").boolean();
  const JsonField points = document.at("points");
  for (const JsonField& point : points.items()) result.points.push_back(read_point(point));
  if (result.warmup < 0 || result.steps < 1) {
    document.at("measured_steps").fail("must be at least 1, behind a warm-up of at least 0");
  }
  check_runs(points, result);
  return result;
}

}  // namespace nqd::reports

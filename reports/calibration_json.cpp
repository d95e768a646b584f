#include "base/file.h"
#include "reports/envelope_json.h"
#include "reports/evidence.h"

namespace nqd::reports {
namespace {

using Layout = JsonWriter::Layout;

void write_curve(JsonWriter& json, const planner::CalibratedCurve& curve) {
  json.begin_object();
  json.field("collective", curve.collective);
  json.field("algorithm", curve.algorithm);
  json.field("ranks", curve.ranks);
  json.key("pieces").begin_array();
  for (const planner::LinkPiece& piece : curve.pieces) {
    json.begin_object(Layout::kInline);
    json.field("from_bytes", piece.from_bytes);
    json.field("to_bytes", piece.to_bytes);
    json.field("alpha_s", piece.alpha_s);
    json.field("beta_s_per_byte", piece.beta_s_per_byte);
    json.end();
  }
  json.end();
  json.field("inside_node", curve.inside_node);
  json.field("max_residual_fraction", curve.max_residual_fraction);
  if (curve.break_bytes > 0) json.field("break_bytes", curve.break_bytes);
  if (!curve.points.empty()) {
    json.field("held_out_fraction", curve.held_out_fraction);
    json.key("points").begin_array();
    for (const planner::SamplePoint& point : curve.points) {
      json.begin_object(Layout::kInline);
      json.field("bytes", point.bytes);
      json.field("seconds", point.seconds);
      json.end();
    }
    json.end();
  }
  json.end();
}

void write_crossovers(JsonWriter& json, const planner::Crossovers& row) {
  json.begin_object();
  json.field("collective", row.collective);
  json.field("ranks", row.ranks);
  json.field("inside_node", row.inside_node);
  json.field("backend", row.backend);
  json.field("registered", row.registered);
  json.key("choices").begin_array();
  for (const planner::CrossoverChoice& choice : row.choices) {
    json.begin_object(Layout::kInline);
    json.field("from_bytes", choice.from_bytes);
    json.field("algorithm", choice.algorithm);
    json.end();
  }
  json.end();
  json.end();
}

void write_hold_out(JsonWriter& json, const CurveHoldOut& curve) {
  json.begin_object();
  json.field("collective", curve.collective);
  json.field("algorithm", curve.algorithm);
  json.field("ranks", curve.ranks);
  json.field("median_fraction", curve.result.median_fraction);
  json.field("worst_fraction", curve.result.worst_fraction);
  json.field("worst_bytes", curve.result.worst_bytes);
  json.key("predictions").begin_array();
  for (const planner::Prediction& prediction : curve.result.predictions) {
    json.begin_object(Layout::kInline);
    json.field("bytes", prediction.bytes);
    json.field("measured_s", prediction.measured_s);
    json.field("predicted_s", prediction.predicted_s);
    json.end();
  }
  json.end();
  json.end();
}

std::vector<collectives::Verdict> residual_verdicts(const planner::Calibration& calibration) {
  std::vector<collectives::Verdict> verdicts;
  for (const planner::CalibratedCurve& curve : calibration.curves) {
    if (curve.max_residual_fraction <= planner::kResidualWarning) continue;
    const bool by_points = !curve.points.empty();
    verdicts.push_back(
        {.code = "calibration-residual",
         .severity =
             by_points && curve.held_out_fraction <= planner::kResidualWarning ? "info" : "warning",
         .confidence = "certain",
         .evidence = curve.collective + " " + curve.algorithm + " on " +
                     std::to_string(curve.ranks) + " ranks: worst residual " +
                     json_number(100 * curve.max_residual_fraction) + " %" +
                     (by_points ? "; priced between measured sizes, of which those held out are "
                                  "missed by at most " +
                                      json_number(100 * curve.held_out_fraction) + " %"
                                : ""),
         .threshold = json_number(100 * planner::kResidualWarning) + " %",
         .cause = "the samples do not lie on a piecewise α–β line: a noisy host, or "
                  "an algorithm that changes inside a piece",
         .next_step =
             "measure again on a quiet host, with a finer sweep (-f 2) and more iterations"});
  }
  return verdicts;
}

void write_rates(JsonWriter& json, const planner::EngineRates& rates) {
  json.begin_object();
  json.field("numerics", name(rates.numerics));
  json.field("precision", name(rates.precision));
  json.field("threads", rates.threads);
  json.field("ranks", rates.ranks);
  json.field("cpus", rates.cpus);
  json.field("in_place", rates.in_place);
  json.key("kernels").begin_array();
  for (const planner::KernelRate& kernel : rates.kernels) {
    json.begin_object(Layout::kInline);
    json.field("kernel", kernel.kernel);
    json.field("item_s", kernel.item_s);
    json.field("unit_s", kernel.unit_s);
    json.end();
  }
  json.end();
  json.end();
}

}  // namespace

std::string calibration_json(const Envelope& envelope, const planner::Calibration& calibration,
                             const std::vector<std::filesystem::path>& inputs,
                             const std::vector<std::string>& skipped,
                             const std::vector<CurveHoldOut>* held_out) {
  JsonWriter json;
  json.begin_object();
  write_envelope(json, envelope);
  json.key("inputs").begin_array();
  for (const std::filesystem::path& input : inputs) {
    json.begin_object(Layout::kInline);
    json.field("path", input.string());
    json.field("sha256", sha256_hex(read_file(input)));
    json.end();
  }
  json.end();
  json.key("curves").begin_array();
  for (const planner::CalibratedCurve& curve : calibration.curves) write_curve(json, curve);
  json.end();
  json.key("crossovers").begin_array();
  for (const planner::Crossovers& row : calibration.crossovers) write_crossovers(json, row);
  json.end();
  json.key("engine_rates").begin_array();
  for (const planner::EngineRates& rates : calibration.engine_rates) write_rates(json, rates);
  json.end();
  if (held_out != nullptr) {
    json.key("hold_out").begin_array();
    for (const CurveHoldOut& curve : *held_out) write_hold_out(json, curve);
    json.end();
  }
  json.field("gemm_flops", measured(calibration.gemm_flops));
  json.field("memory_bandwidth_bytes_per_s", measured(calibration.memory_bandwidth_bytes_per_s));
  json.field("source", calibration.source);
  json.key("skipped").begin_array();
  for (const std::string& reason : skipped) json.value(reason);
  json.end();
  write_verdicts(json, residual_verdicts(calibration));
  json.end();
  return json.take();
}

}  // namespace nqd::reports

#include <string>

#include "planner/calibration/calibration.h"
#include "planner/config/calibration_reader.h"
#include "planner/config/read_value.h"

namespace nqd::planner {
namespace {

std::string quoted(const std::string& text) {
  return "\"" + printable(text, text.size() * 2 + 1) + "\"";
}

std::string piece_yaml(const LinkPiece& piece) {
  return "      - {from_bytes: " + number_text(piece.from_bytes) +
         ", to_bytes: " + number_text(piece.to_bytes) + ", alpha_s: " + number_text(piece.alpha_s) +
         ", beta_s_per_byte: " + number_text(piece.beta_s_per_byte) + "}\n";
}

std::string flag_text(bool flag) { return flag ? "true" : "false"; }

std::string points_yaml(const CalibratedCurve& curve) {
  if (curve.points.empty()) return {};
  std::string text =
      "    # The pieces miss by too much: prices lie between these measured medians.\n";
  text += "    held_out_fraction: " + number_text(curve.held_out_fraction) + "\n    points:\n";
  for (const SamplePoint& point : curve.points) {
    text += "      - {bytes: " + number_text(point.bytes) +
            ", seconds: " + number_text(point.seconds) + "}\n";
  }
  return text;
}

std::string curve_yaml(const CalibratedCurve& curve) {
  std::string text = "  - collective: " + curve.collective + "\n    algorithm: " + curve.algorithm +
                     "\n    ranks: " + std::to_string(curve.ranks) +
                     "\n    inside_node: " + flag_text(curve.inside_node) +
                     "\n    max_residual_fraction: " + number_text(curve.max_residual_fraction) +
                     "\n";
  if (curve.break_bytes > 0) text += "    break_bytes: " + number_text(curve.break_bytes) + "\n";
  text += "    pieces:\n";
  for (const LinkPiece& piece : curve.pieces) text += piece_yaml(piece);
  return text + points_yaml(curve);
}

std::string crossovers_yaml(const Crossovers& row) {
  std::string text =
      "  - collective: " + row.collective + "\n    ranks: " + std::to_string(row.ranks) +
      "\n    inside_node: " + flag_text(row.inside_node) + "\n    backend: " + row.backend +
      "\n    registered: " + flag_text(row.registered) + "\n    choices:\n";
  for (const CrossoverChoice& choice : row.choices) {
    text += "      - {from_bytes: " + number_text(choice.from_bytes) +
            ", algorithm: " + choice.algorithm + "}\n";
  }
  return text;
}

std::string rates_yaml(const EngineRates& rates) {
  std::string text = "  - numerics: " + std::string(name(rates.numerics)) +
                     "\n    precision: " + std::string(name(rates.precision)) +
                     "\n    threads: " + std::to_string(rates.threads) +
                     "\n    ranks: " + std::to_string(rates.ranks) + "\n";
  if (rates.cpus > 0) text += "    cpus: " + std::to_string(rates.cpus) + "\n";
  text += "    in_place: " + number_text(rates.in_place) + "\n    kernels:\n";
  for (const KernelRate& kernel : rates.kernels) {
    text += "      - {kernel: " + kernel.kernel + ", item_s: " + number_text(kernel.item_s) +
            ", unit_s: " + number_text(kernel.unit_s) + "}\n";
  }
  return text;
}

}  // namespace

std::string calibration_yaml(const Calibration& calibration) {
  std::string text =
      "# Written by `nqd calibrate`. Seconds of one call = alpha_s + beta_s_per_byte * bytes.\n";
  text += "version: " + std::to_string(kCalibrationVersion) + "\n";
  text += "source: " + quoted(calibration.source) + "\n";
  if (calibration.gemm_flops > 0) {
    text += "gemm_flops: " + number_text(calibration.gemm_flops) + "\n";
  }
  if (calibration.memory_bandwidth_bytes_per_s > 0) {
    text +=
        "memory_bandwidth_bytes_per_s: " + number_text(calibration.memory_bandwidth_bytes_per_s) +
        "\n";
  }
  text += calibration.curves.empty() ? "curves: []\n" : "curves:\n";
  for (const CalibratedCurve& curve : calibration.curves) text += curve_yaml(curve);
  if (!calibration.engine_rates.empty()) {
    text +=
        "# nqd's own engine: seconds of a kernel = item_s * items + unit_s * units.\n"
        "engine_rates:\n";
    for (const EngineRates& rates : calibration.engine_rates) text += rates_yaml(rates);
  }
  if (calibration.crossovers.empty()) return text;
  text += "# The fastest of nqd's algorithms by payload: what `auto` runs.\ncrossovers:\n";
  for (const Crossovers& row : calibration.crossovers) text += crossovers_yaml(row);
  return text;
}

}  // namespace nqd::planner

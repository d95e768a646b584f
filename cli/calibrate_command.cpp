// `nqd calibrate EVIDENCE… --output cluster.yaml`: measured samples to constants that the planner
// uses.
#include <CLI/CLI.hpp>
#include <array>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/log.h"
#include "base/units.h"
#include "cli/command.h"
#include "planner/calibration/calibration.h"
#include "reports/evidence.h"
#include "reports/nccl_tests/measurements.h"
#include "reports/output.h"
#include "reports/page/format.h"

namespace nqd::cli {
namespace {

struct Options {
  std::vector<std::string> inputs;
  std::string output;
  bool hold_out = false;
  bool json = false;
};

using Row = std::array<std::string, 7>;

// Padded by what the terminal shows: a UTF-8 sequence is one column.
std::string padded(const std::string& text, std::size_t width, bool left) {
  std::size_t columns = 0;
  for (const char byte : text) columns += (static_cast<unsigned char>(byte) & 0xc0) != 0x80 ? 1 : 0;
  const std::string space(columns < width ? width - columns : 0, ' ');
  return left ? text + space : space + text;
}

void print_row(const Row& row) {
  constexpr std::array<std::size_t, 7> kWidths = {26, 6, 11, 11, 12, 12, 10};
  for (std::size_t i = 0; i < row.size(); ++i) std::cout << padded(row[i], kWidths[i], i == 0);
  std::cout << "\n";
}

void print_curves(const planner::Calibration& calibration) {
  print_row({"curve", "ranks", "from", "to", "α us", "1/β GB/s", "residual"});
  for (const planner::CalibratedCurve& curve : calibration.curves) {
    for (const planner::LinkPiece& piece : curve.pieces) {
      const bool limited = piece.beta_s_per_byte > 0;
      print_row({curve.collective + " " + curve.algorithm, std::to_string(curve.ranks),
                 reports::short_bytes(piece.from_bytes), reports::short_bytes(piece.to_bytes),
                 reports::fixed(1e6 * piece.alpha_s, 2),
                 limited ? reports::fixed(1 / piece.beta_s_per_byte / kGB, 3) : "no limit",
                 reports::fixed(100 * curve.max_residual_fraction, 1) + " %"});
    }
  }
}

void print_crossovers(const planner::Calibration& calibration) {
  for (const planner::Crossovers& row : calibration.crossovers) {
    std::cout << "auto " << row.collective << ", " << row.ranks << " ranks (" << row.backend
              << (row.registered ? ", registered buffers" : "") << "): ";
    const char* separator = "";
    for (const planner::CrossoverChoice& choice : row.choices) {
      std::cout << separator << choice.algorithm << " from "
                << reports::short_bytes(choice.from_bytes);
      separator = ", ";
    }
    std::cout << "\n";
  }
}

void print_hold_out(const std::vector<reports::CurveHoldOut>& curves) {
  print_row({"held out", "ranks", "sizes", "median", "worst", "at", ""});
  for (const reports::CurveHoldOut& curve : curves) {
    const planner::HoldOut& result = curve.result;
    print_row({curve.collective + " " + curve.algorithm, std::to_string(curve.ranks),
               std::to_string(result.predictions.size()),
               reports::fixed(100 * result.median_fraction, 1) + " %",
               reports::fixed(100 * result.worst_fraction, 1) + " %",
               reports::short_bytes(result.worst_bytes), ""});
  }
}

void print_engine(const planner::Calibration& calibration) {
  for (const planner::EngineRates& rates : calibration.engine_rates) {
    std::cout << "engine, " << name(rates.numerics) << " " << name(rates.precision) << ", "
              << rates.threads << (rates.threads == 1 ? " thread" : " threads") << " each of "
              << rates.ranks << (rates.ranks == 1 ? " rank" : " ranks") << ": "
              << rates.kernels.size() << " kernels";
    for (const planner::KernelRate& kernel : rates.kernels) {
      if (kernel.kernel != "forward_product" || kernel.unit_s <= 0) continue;
      std::cout << ", products " << reports::fixed(1e-9 / kernel.unit_s, 1) << " GFLOP/s";
    }
    std::cout << "; a step takes " << reports::fixed(rates.in_place, 3)
              << " of the sum of its kernels\n";
  }
}

void print_text(const planner::Calibration& calibration,
                const std::vector<reports::CurveHoldOut>& held_out, const Options& options) {
  if (!calibration.curves.empty()) print_curves(calibration);
  print_crossovers(calibration);
  if (options.hold_out) print_hold_out(held_out);
  print_engine(calibration);
  if (calibration.gemm_flops > 0) {
    std::cout << "matrix products: " << reports::fixed(calibration.gemm_flops / 1e9, 1)
              << " GFLOP/s a rank\n";
  }
  if (calibration.memory_bandwidth_bytes_per_s > 0) {
    std::cout << "memory: " << reports::fixed(calibration.memory_bandwidth_bytes_per_s / kGB, 2)
              << " GB/s\n";
  }
  std::cout << "written: " << options.output
            << " (use it with nqd mesh-plan --cluster and nqd train --cluster)\n";
}

constexpr const char* kMeasureFiner =
    "\n  hint: measure again on a quiet host, with a finer sweep (-f 2, or -f 1.4 where the time "
    "jumps) and more iterations (-n 100)";

void warn_of(const planner::Calibration& calibration, const std::vector<std::string>& skipped) {
  for (const std::string& reason : skipped) log::warn("left out: " + reason);
  for (const planner::CalibratedCurve& curve : calibration.curves) {
    if (curve.max_residual_fraction <= planner::kResidualWarning) continue;
    const std::string what = curve.collective + " " + curve.algorithm + " on " +
                             std::to_string(curve.ranks) + " ranks: the fit misses a sample by " +
                             reports::fixed(100 * curve.max_residual_fraction, 1) + " %";
    if (curve.points.empty()) {
      log::warn(what + kMeasureFiner);
      continue;
    }
    const std::string instead =
        ", so prices lie between the measured sizes; those that are held out are missed by at "
        "most " +
        reports::fixed(100 * curve.held_out_fraction, 1) + " %";
    const bool good = curve.held_out_fraction <= planner::kResidualWarning;
    good ? log::info(what + instead) : log::warn(what + instead + kMeasureFiner);
  }
}

int run(const Options& options, const Context& context) {
  reports::check_output(options.output, {options.inputs.begin(), options.inputs.end()},
                        "give the path of the cluster file; --json prints the fit to stdout");
  AtomicFile output(options.output);
  const reports::Envelope envelope = reports::begin_envelope("calibration", context.argv);
  std::vector<reports::Evidence> evidence;
  for (const std::string& input : options.inputs) {
    evidence.push_back(reports::read_measurements(input));
  }
  std::vector<std::string> skipped;
  const planner::Calibration calibration = reports::calibrate(evidence, &skipped);
  output.write(planner::calibration_yaml(calibration));
  output.commit();
  warn_of(calibration, skipped);
  std::vector<reports::CurveHoldOut> held_out;
  if (options.hold_out) held_out = reports::hold_out_curves(evidence);
  if (options.json) {
    std::cout << reports::calibration_json(envelope, calibration,
                                           {options.inputs.begin(), options.inputs.end()}, skipped,
                                           options.hold_out ? &held_out : nullptr);
  } else {
    print_text(calibration, held_out, options);
  }
  return 0;
}

}  // namespace

void add_calibrate_command(CLI::App& app, Context& context) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "calibrate", "Fit latency, bandwidth and compute rates from bench evidence");
  command
      ->add_option("evidence", options->inputs,
                   "documents that nqd bench wrote, output of nccl-tests (text or JSON)")
      ->required()
      ->type_name("EVIDENCE");
  command->add_option("-o,--output", options->output, "cluster file to write (YAML)")
      ->required()
      ->type_name("FILE");
  command->add_flag("--hold-out", options->hold_out,
                    "also fit to every other size, and report how well the rest is predicted");
  command->add_flag("--json", options->json, "print an evidence document of the fit");
  command->footer("Exit status: 0 fitted and written, 2 the documents cannot be read or fitted.");
  command->callback([options, &context] { context.exit_code = run(*options, context); });
}

}  // namespace nqd::cli

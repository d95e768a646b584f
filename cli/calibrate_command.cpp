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

void print_text(const planner::Calibration& calibration, const Options& options) {
  if (!calibration.curves.empty()) print_curves(calibration);
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

void warn_of(const planner::Calibration& calibration, const std::vector<std::string>& skipped) {
  for (const std::string& reason : skipped) log::warn("left out: " + reason);
  for (const planner::CalibratedCurve& curve : calibration.curves) {
    if (curve.max_residual_fraction <= reports::kResidualWarning) continue;
    log::warn(curve.collective + " " + curve.algorithm + " on " + std::to_string(curve.ranks) +
              " ranks: the fit misses a sample by " +
              reports::fixed(100 * curve.max_residual_fraction, 1) +
              " %\n  hint: measure again on a quiet host, with a finer sweep (-f 2) and more "
              "iterations (-n 100)");
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
  if (options.json) {
    std::cout << reports::calibration_json(envelope, calibration,
                                           {options.inputs.begin(), options.inputs.end()}, skipped);
  } else {
    print_text(calibration, options);
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
  command->add_flag("--json", options->json, "print an evidence document of the fit");
  command->footer("Exit status: 0 fitted and written, 2 the documents cannot be read or fitted.");
  command->callback([options, &context] { context.exit_code = run(*options, context); });
}

}  // namespace nqd::cli

// `nqd report EVIDENCE… --output report.html`: one self-contained page.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "cli/command.h"
#include "planner/calibration/calibration.h"
#include "reports/evidence.h"
#include "reports/html.h"
#include "reports/output.h"

namespace nqd::cli {
namespace {

struct Options {
  std::vector<std::string> inputs;
  std::string cluster;
  std::string output;
};

// A cluster file's curves are drawn beside the samples; who measured them stands in its source
// line.
reports::Evidence cluster_document(const std::string& path) {
  reports::Evidence document;
  document.path = path;
  document.envelope.kind = "calibration";
  document.calibration = planner::read_calibration(path);
  return document;
}

int run(const Options& options) {
  std::vector<std::filesystem::path> inputs(options.inputs.begin(), options.inputs.end());
  if (!options.cluster.empty()) inputs.emplace_back(options.cluster);
  reports::check_output(options.output, inputs, "give the path of the page, such as report.html");
  AtomicFile output(options.output);
  std::vector<reports::Evidence> evidence;
  for (const std::string& input : options.inputs) {
    evidence.push_back(reports::read_evidence(input));
  }
  if (!options.cluster.empty()) evidence.push_back(cluster_document(options.cluster));
  output.write(reports::render_html(evidence));
  output.commit();
  std::cout << std::filesystem::absolute(options.output).string() << "\n";
  return 0;
}

}  // namespace

void add_report_command(CLI::App& app, Context& context) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("report", "One self-contained HTML page from evidence");
  command
      ->add_option(
          "evidence", options->inputs,
          "documents of nqd bench, train and scale, of calibrate --json and doctor --json, and "
          "loss curves of other tools (docs/evidence.md)")
      ->required()
      ->type_name("EVIDENCE");
  command
      ->add_option("--cluster", options->cluster,
                   "calibration that `nqd calibrate` wrote: draws its fit beside the samples")
      ->type_name("FILE");
  command->add_option("-o,--output", options->output, "page to write (HTML)")
      ->required()
      ->type_name("FILE");
  command->footer(
      "Prints the page's path. Exit status: 0 written, 2 a document cannot be read or "
      "holds nothing to show.");
  command->callback([options, &context] { context.exit_code = run(*options); });
}

}  // namespace nqd::cli

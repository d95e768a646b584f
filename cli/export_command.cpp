// `nqd export CONFIG --to FORMAT`: nqd's config as another tool writes it.
#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <string>

#include "base/diagnostic.h"
#include "base/error.h"
#include "base/file.h"
#include "cli/command.h"
#include "cli/config_input.h"
#include "planner/import/export.h"
#include "reports/output.h"

namespace nqd::cli {
namespace {

struct Options {
  ConfigFlags config;
  std::string format;
  std::string output;
  bool json = false;
};

int run(const Options& options) {
  if (!options.output.empty()) {
    reports::check_output(options.output, {options.config.path},
                          "without --output the text goes to standard output");
  }
  const planner::LoadedConfig loaded = load_or_throw(options.config, true);
  const planner::ExportResult result =
      planner::export_config(loaded, *planner::parse_export_format(options.format));
  for (const planner::InexpressibleKey& key : result.inexpressible) {
    Diagnostic warning;
    warning.code = "NQD2320";
    warning.severity = result.text.empty() ? Severity::kError : Severity::kWarning;
    warning.path = key.path;
    warning.message = "not expressed: " + key.path + (key.value.empty() ? "" : ": " + key.value) +
                      " (" + key.reason + ")";
    planner::locate(warning, loaded, loaded.text);
    if (warning.where.file.empty()) warning.where.file = options.config.path;
    std::cerr << format(warning);
  }
  const std::string text = options.json ? planner::export_json(result) : result.text;
  if (options.output.empty()) {
    std::cout << text;
  } else if (!result.text.empty()) {
    write_file(options.output, text);
  }
  return static_cast<int>(result.text.empty() ? ExitCode::kNo : ExitCode::kOk);
}

}  // namespace

void add_export_command(CLI::App& app, Context& context) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "export", "Print a config as another tool's, and list what that tool cannot express");
  add_config_flags(*command, options->config);
  command->add_option("--to", options->format, "whose")
      ->required()
      ->check(CLI::IsMember({"megatron", "hf", "deepspeed"}));
  command->add_option("-o,--output", options->output, "write there instead of to stdout")
      ->type_name("FILE");
  command->add_flag("--json", options->json, "print {text, inexpressible}");
  command->footer(
      "Exit status: 0 printed, 1 the config breaks a rule or the format cannot express its model, "
      "2 "
      "the config is malformed.");
  command->callback([options, &context] { context.exit_code = run(*options); });
}

}  // namespace nqd::cli

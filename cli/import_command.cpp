// `nqd import FILE... --from FORMAT`: another tool's config as nqd's, and what it cannot hold.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "base/error.h"
#include "base/file.h"
#include "cli/command.h"
#include "planner/import/import.h"
#include "reports/output.h"

namespace nqd::cli {
namespace {

struct Options {
  std::vector<std::string> paths;
  std::string format;
  std::string model;
  std::string output;
  std::vector<std::string> definitions;
  std::int64_t world_size = 0;
  bool json = false;
};

constexpr const char* kWithoutOutput = "without --output the config goes to standard output";

planner::Source read_source(const std::string& path) { return {path, read_file(path)}; }

planner::ImportRequest request_of(const Options& options) {
  planner::ImportRequest request;
  request.format = *planner::parse_foreign_format(options.format);
  const bool script = request.format == planner::ForeignFormat::kMegatron;
  if (options.paths.size() > 1 && !script) {
    throw CLI::ValidationError("FILE",
                               "several files are read as one script: only --from megatron");
  }
  if (!options.definitions.empty() && !script) {
    throw CLI::ValidationError("--define", "only scripts have variables: --from megatron");
  }
  if (!options.model.empty() && request.format != planner::ForeignFormat::kDeepSpeed) {
    throw CLI::ValidationError("--model",
                               "the other formats say what the model is: --from deepspeed");
  }
  for (const std::string& path : options.paths) request.files.push_back(read_source(path));
  if (!options.model.empty()) request.model = read_source(options.model);
  request.definitions = options.definitions;
  request.world_size = options.world_size;
  return request;
}

void print_findings(const planner::ImportResult& result) {
  for (const Diagnostic& diagnostic : result.diagnostics) std::cerr << format(diagnostic);
  for (const planner::UnrepresentedKey& key : result.unrepresented) {
    Diagnostic warning;
    warning.code = "NQD2314";
    warning.severity = Severity::kWarning;
    warning.where = key.where;
    warning.message = "not represented: " + key.key + (key.value == "null" ? "" : " " + key.value) +
                      " (" + key.reason + ")";
    std::cerr << format(warning);
  }
}

int run(const Options& options) {
  const planner::ImportRequest request = request_of(options);
  std::optional<AtomicFile> output;
  if (!options.output.empty()) {
    std::vector<std::filesystem::path> inputs(options.paths.begin(), options.paths.end());
    if (!options.model.empty()) inputs.emplace_back(options.model);
    reports::check_output(options.output, inputs, kWithoutOutput);
    output.emplace(options.output);
  }
  const planner::ImportResult result = planner::import_config(request);
  print_findings(result);
  const bool read = result.exit_code != ExitCode::kUsage;
  const std::string text = options.json ? planner::import_json(result) : result.yaml;
  if (!output) {
    std::cout << text;
  } else if (read) {
    output->write(text);
    output->commit();
  }
  return static_cast<int>(result.exit_code);
}

}  // namespace

void add_import_command(CLI::App& app, Context& context) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "import", "Turn another tool's config into nqd's, and list what nqd's cannot hold");
  command
      ->add_option("files", options->paths, "config; of megatron also several, read as one script")
      ->required()
      ->type_name("FILE");
  command->add_option("--from", options->format, "what wrote it")
      ->required()
      ->check(CLI::IsMember({"megatron", "deepspeed", "hf", "torchtitan"}));
  command->add_option("--model", options->model, "deepspeed: the model's Hugging Face config.json")
      ->type_name("FILE");
  command
      ->add_option("--define", options->definitions,
                   "megatron: a variable that the script takes from outside, as NNODES=16")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  command->add_option("--world-size", options->world_size, "ranks, where the files do not say")
      ->check(CLI::Range(1, 1 << 20));
  command->add_option("-o,--output", options->output, "write there instead of to stdout")
      ->type_name("FILE");
  command->add_flag("--json", options->json,
                    "print {config, yaml, unrepresented, diagnostics} instead of the YAML alone");
  command->footer(
      "Exit status: 0 the config is written, 1 it is, but contradicts itself or breaks a rule of "
      "the "
      "mesh, 2 the input is malformed.");
  command->callback([options, &context] { context.exit_code = run(*options); });
}

}  // namespace nqd::cli

// `nqd mesh-plan CONFIG…`: validates, and prints the budget; several configs: a pass/fail table.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <ctime>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "base/error.h"
#include "base/file.h"
#include "cli/command.h"
#include "cli/config_input.h"
#include "cli/plan_verdict.h"
#include "planner/config/config.h"
#include "planner/mesh/rank_map.h"
#include "planner/plan/plan_text.h"
#include "planner/planner.h"
#include "reports/evidence.h"
#include "reports/github.h"
#include "reports/junit.h"
#include "reports/output.h"
#include "reports/sarif.h"

namespace nqd::cli {
namespace {

struct Options {
  std::vector<std::string> paths;
  planner::LoadOptions load;
  std::string format = "text";
  std::string output;
  std::string rankfile;
  std::vector<std::string> hosts;
  bool map = false;
  bool json = false;
  bool explain = false;
};

using Verdicts = std::vector<planner::PlanVerdict>;

ExitCode exit_code(const std::vector<planner::PlanVerdict>& verdicts) {
  ExitCode code = ExitCode::kOk;
  for (const planner::PlanVerdict& verdict : verdicts) {
    if (is_malformed(verdict.plan.diagnostics)) return ExitCode::kUsage;
    if (!verdict.plan.valid) code = ExitCode::kNo;
  }
  return code;
}

bool has_plan(const planner::PlanVerdict& verdict) {
  return verdict.loaded && !verdict.plan.memory.stages.empty();
}

std::string text_document(const Verdicts& verdicts, bool map) {
  if (verdicts.size() > 1) return planner::render_table(verdicts);
  const planner::PlanVerdict& only = verdicts.front();
  if (!only.loaded) return {};
  std::string text = planner::render_plan(only.plan, std::time(nullptr));
  if (map && has_plan(only)) text += "\n" + planner::render_rank_map(only.plan.config);
  return text;
}

std::string document(const Options& options, const Verdicts& verdicts) {
  if (options.format == "text") return text_document(verdicts, options.map);
  std::vector<reports::PlannedConfig> configs;
  for (const planner::PlanVerdict& verdict : verdicts) {
    configs.push_back({verdict.path, verdict.loaded, verdict.plan});
  }
  if (options.format == "github") return reports::plan_github(configs);
  if (options.format == "sarif") return reports::plan_sarif(configs);
  if (options.format == "junit") return reports::plan_junit(configs);
  return reports::plan_json(configs, options.map);
}

void write_rankfile(const Options& options, const planner::PlanVerdict& verdict) {
  if (!has_plan(verdict)) return;
  const auto nodes = static_cast<std::size_t>(verdict.plan.config.cluster.nodes);
  if (!options.hosts.empty() && options.hosts.size() != nodes) {
    throw CLI::ValidationError("--hosts",
                               "the cluster has " + std::to_string(nodes) + " nodes, but " +
                                   std::to_string(options.hosts.size()) + " hosts are named");
  }
  write_file(options.rankfile, planner::open_mpi_rankfile(verdict.plan.config, options.hosts));
}

// What CLI11 cannot say of flags that do not go together.
void check_flags(const Options& options) {
  const bool text = options.format == "text";
  if (options.explain && !text) {
    throw CLI::ValidationError("--explain-config", "it prints text and has no other form");
  }
  if (options.map && !text && options.format != "json") {
    throw CLI::ValidationError("--map", "only text and json have a place for it");
  }
  if (options.paths.size() > 1 && (!options.rankfile.empty() || (options.map && text))) {
    throw CLI::ValidationError(options.map ? "--map" : "--rankfile", "give a single config");
  }
  if (!options.hosts.empty() && options.rankfile.empty()) {
    throw CLI::ValidationError("--hosts", "it is for --rankfile");
  }
  for (const std::string& output : {options.output, options.rankfile}) {
    if (output.empty()) continue;
    reports::check_output(output, {options.paths.begin(), options.paths.end()},
                          "without --output the plan goes to standard output");
  }
}

void explain(const Options& options, const planner::LoadedConfig& loaded, const std::string& path) {
  if (!options.explain || !loaded.ok()) return;
  if (options.paths.size() > 1) std::cout << "# " << path << '\n';
  std::cout << explain_config(loaded);
}

int run(Options options) {
  if (options.json) options.format = "json";
  check_flags(options);
  Verdicts verdicts;
  for (const std::string& path : options.paths) {
    const planner::LoadedConfig loaded = planner::load_config(path, options.load);
    explain(options, loaded, path);
    verdicts.push_back(plan_verdict(loaded, path));
    for (const Diagnostic& diagnostic : verdicts.back().plan.diagnostics) {
      std::cerr << format(diagnostic);
    }
  }
  if (!options.rankfile.empty()) write_rankfile(options, verdicts.front());
  if (!options.explain) {
    const std::string text = document(options, verdicts);
    options.output.empty() ? void(std::cout << text) : write_file(options.output, text);
  }
  return static_cast<int>(exit_code(verdicts));
}

}  // namespace

void add_mesh_plan_command(CLI::App& app, Context& context) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("mesh-plan",
                                         "Validate configs and print what a rank will hold, send "
                                         "and take; several: a pass/fail table");
  command->add_option("config", options->paths, "config files (YAML)")
      ->required()
      ->type_name("CONFIG");
  command
      ->add_option("--set", options->load.overrides,
                   "override a value: key=value, as train.steps=50")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command
      ->add_option("--cluster", options->load.cluster_file,
                   "calibration that `nqd calibrate` wrote")
      ->type_name("FILE");
  command
      ->add_option(
          "--format", options->format,
          "how to print the plan; github: workflow commands, sarif: SARIF 2.1.0, junit: XML")
      ->check(CLI::IsMember({"text", "json", "github", "sarif", "junit"}))
      ->capture_default_str();
  command->add_option("--output", options->output, "write there instead of standard output")
      ->type_name("FILE");
  command->add_flag("--map", options->map,
                    "also print where every rank sits and whom it communicates with");
  command
      ->add_option("--rankfile", options->rankfile,
                   "write an Open MPI rankfile that places the ranks so")
      ->type_name("FILE");
  command
      ->add_option("--hosts", options->hosts,
                   "names of the nodes for --rankfile: a,b,c; without them those of the batch "
                   "system's allocation")
      ->delimiter(',')
      ->type_name("HOST");
  command->add_flag("--json", options->json, "the same as --format json");
  command->add_flag("--explain-config", options->explain,
                    "print every value with its origin instead of the plan");
  command->footer(
      "Exit status: 0 all are valid and fit, 1 a rule is violated or a plan does not fit, 2 a "
      "config "
      "is malformed.");
  command->callback([options, &context] { context.exit_code = run(*options); });
}

}  // namespace nqd::cli

// `nqd mesh-plan CONFIG…`: validates, and prints the budget; several configs: a pass/fail table.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "base/error.h"
#include "cli/command.h"
#include "cli/config_input.h"
#include "planner/config/config.h"
#include "planner/plan_text.h"
#include "planner/planner.h"
#include "reports/evidence.h"

namespace nqd::cli {
namespace {

struct Options {
  std::vector<std::string> paths;
  planner::LoadOptions load;
  std::string format = "text";
  bool json = false;
  bool explain = false;
};

planner::PlanVerdict plan_config(const planner::LoadedConfig& loaded, const std::string& path) {
  planner::PlanVerdict verdict;
  verdict.path = path;
  verdict.loaded = loaded.ok();
  verdict.plan.config = loaded.config;
  verdict.plan.diagnostics = loaded.diagnostics;
  verdict.plan.valid = loaded.ok();
  if (!loaded.ok()) return verdict;
  verdict.plan = planner::make_plan(loaded.config);
  std::vector<Diagnostic> findings = plan_findings(loaded, verdict.plan);
  verdict.plan.diagnostics = loaded.diagnostics;
  std::move(findings.begin(), findings.end(), std::back_inserter(verdict.plan.diagnostics));
  return verdict;
}

ExitCode exit_code(const std::vector<planner::PlanVerdict>& verdicts) {
  ExitCode code = ExitCode::kOk;
  for (const planner::PlanVerdict& verdict : verdicts) {
    if (is_malformed(verdict.plan.diagnostics)) return ExitCode::kUsage;
    if (!verdict.plan.valid) code = ExitCode::kNo;
  }
  return code;
}

void print_json(const std::vector<planner::PlanVerdict>& verdicts) {
  std::vector<reports::PlannedConfig> configs;
  for (const planner::PlanVerdict& verdict : verdicts) {
    configs.push_back({verdict.path, verdict.loaded, verdict.plan});
  }
  std::cout << reports::plan_json(configs);
}

void print_text(const std::vector<planner::PlanVerdict>& verdicts) {
  if (verdicts.size() > 1) {
    std::cout << planner::render_table(verdicts);
  } else if (verdicts.front().loaded) {
    std::cout << planner::render_plan(verdicts.front().plan);
  }
}

int run(const Options& options) {
  const bool json = options.json || options.format == "json";
  if (json && options.explain) {
    throw CLI::ValidationError("--explain-config", "it prints text and has no JSON form");
  }
  std::vector<planner::PlanVerdict> verdicts;
  for (const std::string& path : options.paths) {
    const planner::LoadedConfig loaded = planner::load_config(path, options.load);
    if (options.explain && loaded.ok()) {
      if (options.paths.size() > 1) std::cout << "# " << path << '\n';
      std::cout << explain_config(loaded);
    }
    verdicts.push_back(plan_config(loaded, path));
    for (const Diagnostic& diagnostic : verdicts.back().plan.diagnostics) {
      std::cerr << format(diagnostic);
    }
  }
  if (!options.explain) json ? print_json(verdicts) : print_text(verdicts);
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
  command->add_option("--format", options->format, "how to print the plan")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
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

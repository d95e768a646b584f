#include "cli/config_input.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <iostream>
#include <thread>
#include <utility>

#include "base/diagnostic.h"
#include "planner/planner.h"

namespace nqd::cli {
namespace {

void print_all(const std::vector<Diagnostic>& diagnostics) {
  for (const Diagnostic& diagnostic : diagnostics) std::cerr << format(diagnostic);
}

void speak(const std::vector<Diagnostic>& diagnostics, bool speaker, bool goes_on) {
  if (!speaker && goes_on) return;
  if (!speaker) wait_for_speaker();
  print_all(diagnostics);
}

}  // namespace

void add_config_flags(CLI::App& command, ConfigFlags& flags) {
  command.add_option("config", flags.path, "config file (YAML)")->required()->type_name("CONFIG");
  command.add_option("--set", flags.overrides, "override a value: key=value, as train.steps=50")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command.add_option("--cluster", flags.cluster_file, "calibration that `nqd calibrate` wrote")
      ->type_name("FILE");
}

void wait_for_speaker() { std::this_thread::sleep_for(std::chrono::seconds(3)); }

bool is_malformed(const std::vector<Diagnostic>& diagnostics) {
  return std::any_of(diagnostics.begin(), diagnostics.end(), [](const Diagnostic& d) {
    return d.severity == Severity::kError && d.code.starts_with("NQD10");
  });
}

std::vector<Diagnostic> plan_findings(const planner::LoadedConfig& loaded,
                                      const planner::Plan& plan) {
  std::vector<Diagnostic> findings;
  for (Diagnostic diagnostic : plan.diagnostics) {
    if (diagnostic.code.starts_with("NQD12")) continue;
    // That of a named GPU is looked up where it is (engine::on_gpus).
    if (diagnostic.code == "NQD1304" && !plan.config.cluster.gpu.empty()) continue;
    planner::locate(diagnostic, loaded, loaded.text);
    findings.push_back(std::move(diagnostic));
  }
  return findings;
}

planner::LoadedConfig load_or_throw(const ConfigFlags& flags, bool speaker) {
  planner::LoadedConfig loaded =
      planner::load_config(flags.path, {flags.overrides, flags.cluster_file});
  speak(loaded.diagnostics, speaker, loaded.ok());
  if (!loaded.ok()) {
    throw ConfigError(is_malformed(loaded.diagnostics) ? ExitCode::kUsage : ExitCode::kNo,
                      "config " + flags.path + " is not valid", loaded.diagnostics);
  }
  return loaded;
}

planner::Plan plan_or_throw(const planner::LoadedConfig& loaded, bool speaker) {
  planner::Plan plan = planner::make_plan(loaded.config);
  const std::vector<Diagnostic> findings = plan_findings(loaded, plan);
  speak(findings, speaker, plan.valid);
  if (!plan.valid) throw ConfigError(ExitCode::kNo, "the plan is not valid", findings);
  return plan;
}

std::string explain_config(const planner::LoadedConfig& loaded) {
  std::size_t path_width = 0;
  std::size_t value_width = 0;
  for (const planner::ResolvedValue& value : loaded.resolved) {
    path_width = std::max(path_width, value.path.size());
    value_width = std::max(value_width, std::min<std::size_t>(value.value.size(), 28));
  }
  std::string text;
  for (const planner::ResolvedValue& value : loaded.resolved) {
    std::string line = value.path + std::string(path_width + 2 - value.path.size(), ' ');
    line += value.value;
    const std::size_t column = path_width + 2 + value_width + 2;
    line += std::string(line.size() < column ? column - line.size() : 2, ' ');
    text += line + "# " + value.origin + "\n";
  }
  return text;
}

}  // namespace nqd::cli

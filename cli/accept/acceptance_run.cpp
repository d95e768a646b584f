#include "cli/accept/acceptance_run.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "cli/bench/tuning.h"
#include "cli/launch/child_output.h"
#include "cli/plan_verdict.h"
#include "planner/config/cluster_file.h"
#include "reports/evidence.h"
#include "reports/json_field.h"

namespace nqd::cli {
namespace {

using reports::AcceptConfig;
using reports::AcceptStep;
using Clock = std::chrono::steady_clock;

constexpr std::array kSweeps = {"all_reduce", "all_gather", "reduce_scatter"};

bool is_yaml(const std::filesystem::path& path) {
  return path.extension() == ".yaml" || path.extension() == ".yml";
}

void add_folder(const std::filesystem::path& folder, std::vector<AcceptConfig>& configs) {
  if (!std::filesystem::is_directory(folder)) return;
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.is_regular_file() && is_yaml(entry.path())) paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  const bool should_pass = folder.filename() != "invalid";
  for (std::string& path : paths) configs.push_back({std::move(path), should_pass, false, {}});
}

// The errors among the verdicts of a bench or canary document.
void fail_by_verdicts(const reports::JsonField& document, AcceptStep& step) {
  for (const reports::JsonField& verdict : document.at("verdicts").items()) {
    if (verdict.at("severity").text() != "error") continue;
    if (!step.next_step.empty()) step.seen += "; ";
    step.seen += verdict.at("evidence").text();
    if (step.next_step.empty()) step.next_step = verdict.at("next_step").text();
  }
}

reports::JsonField parsed(const std::filesystem::path& path) {
  return reports::JsonField::parse(read_file(path), path);
}

// The runs of a parity document that failed.
void fail_by_cases(const reports::JsonField& document, AcceptStep& step) {
  for (const reports::JsonField& one : document.at("cases").items()) {
    if (one.at("verdict").text() != "failed") continue;
    step.seen += "\n" + one.at("engine").text() + " " + one.at("mesh").text() + ", " +
                 one.at("numerics").text() + ": " + one.at("reason").text_or("");
  }
  step.next_step =
      "run `nqd parity CONFIG --own-mesh` again: the same failure is the machine's or the build's "
      "(nqd doctor, memory test), another one each time is memory or a CPU that errs";
}

}  // namespace

std::vector<AcceptConfig> find_configs(const std::vector<std::string>& paths) {
  std::vector<AcceptConfig> configs;
  for (const std::filesystem::path path : paths) {
    const std::size_t before = configs.size();
    if (std::filesystem::is_directory(path)) {
      add_folder(path, configs);
      add_folder(path / "parity", configs);
      add_folder(path / "invalid", configs);
    } else if (std::filesystem::exists(path)) {
      const bool should_pass = path.parent_path().filename() != "invalid";
      configs.push_back({path.string(), should_pass, false, {}});
    }
    if (configs.size() > before) continue;
    throw Error(ExitCode::kUsage, "NQD2001", path.string() + " has no configs",
                "run it where the folder configs/ is, or name configs with --configs");
  }
  return configs;
}

AcceptanceRun::AcceptanceRun(const AcceptOptions& options, std::string program)
    : options_(options), program_(std::move(program)) {
  result_.cluster = options.cluster;
  // A name that nobody knows is told before the canary runs.
  if (!options.cluster.empty() && !is_calibration(options.cluster)) {
    planner::read_cluster(options.cluster);
  }
  result_.configs = find_configs(options.configs);
}

reports::Acceptance AcceptanceRun::run(const std::function<void(const std::string&)>& on_step) {
  std::vector<std::pair<std::string, Step>> steps;
  steps.emplace_back("canary", [this](AcceptStep& step) { canary(step); });
  for (const char* name : kSweeps) {
    steps.emplace_back(name, [this](AcceptStep& step) { sweep(step); });
  }
  steps.emplace_back("configs", [this](AcceptStep& step) { plan_configs(step); });
  steps.emplace_back("parity", [this](AcceptStep& step) { parity(step); });
  for (const auto& [name, make] : steps) result_.plan.push_back(name);
  for (const auto& [name, make] : steps) {
    on_step(name);
    AcceptStep step;
    step.name = name;
    const Clock::time_point start = Clock::now();
    make(step);
    step.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    const std::filesystem::path document = options_.folder / step.document;
    if (!step.document.empty()) step.sha256 = sha256_hex(read_file(document));
    result_.steps.push_back(std::move(step));
    if (!result_.steps.back().passed) break;
  }
  return std::move(result_);
}

bool AcceptanceRun::run_command(AcceptStep& step, std::vector<std::string> arguments,
                                bool on_ranks) const {
  const std::string document = step.name + ".json";
  std::vector<std::string> words;
  if (on_ranks && !options_.threads) {
    words = {"mpirun", "-n", std::to_string(options_.ranks)};
    if (!options_.hosts.empty()) {
      words.emplace_back("-host");
      words.push_back(options_.hosts);
    }
  }
  words.push_back(program_);
  for (std::string& argument : arguments) words.push_back(std::move(argument));
  if (on_ranks && options_.threads) {
    words.emplace_back("--ranks");
    words.push_back(std::to_string(options_.ranks));
  }
  words.emplace_back("--output");
  words.push_back((options_.folder / document).string());
  step.argv = words;
  const std::filesystem::path said = options_.folder / (step.name + ".txt");
  // More ranks than cores are for the canary to judge, not for mpirun to refuse.
  step.exit_code = run_to_file(std::move(words), said, {"OMPI_MCA_rmaps_base_oversubscribe=1"});
  if (std::filesystem::exists(options_.folder / document)) step.document = document;
  if ((step.exit_code == 0 || step.exit_code == 1) && !step.document.empty()) return true;
  step.seen =
      "it ended with exit code " + std::to_string(step.exit_code) + ":\n" + last_lines(said);
  step.next_step = "run the command of this step by itself, and look at " + said.string();
  return false;
}

void AcceptanceRun::canary(AcceptStep& step) const {
  std::vector<std::string> arguments = {"canary"};
  if (!options_.cluster.empty() && is_calibration(options_.cluster)) {
    arguments.emplace_back("--calibration");
    arguments.push_back(options_.cluster);
  }
  if (!run_command(step, std::move(arguments), true)) return;
  const reports::JsonField document = parsed(options_.folder / step.document);
  step.passed = document.at("healthy").boolean();
  if (!step.passed) return fail_by_verdicts(document, step);
  step.seen = std::to_string(document.at("devices").items().size()) + " devices and " +
              std::to_string(document.at("links").items().size()) + " links are as they should be";
  if (!document.at("busy_hosts").items().empty()) step.seen += "; the host was busy";
}

void AcceptanceRun::sweep(AcceptStep& step) const {
  std::vector<std::string> arguments = {"bench",      step.name, "-b", "4K", "-e",
                                        options_.end, "-f",      "4",  "-n", "20"};
  if (!options_.cluster.empty()) {
    arguments.emplace_back("--cluster");
    arguments.push_back(options_.cluster);
  }
  if (!run_command(step, std::move(arguments), true)) return;
  const std::filesystem::path path = options_.folder / step.document;
  step.passed = step.exit_code == 0;
  if (!step.passed) return fail_by_verdicts(parsed(path), step);
  const std::vector<collectives::BenchRow> rows = reports::read_evidence(path).bench.rows;
  const auto best = std::max_element(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return a.busbw_gbps < b.busbw_gbps;
  });
  std::array<char, 96> peak{};
  std::snprintf(peak.data(), peak.size(),
                "%zu sizes, no wrong element, at best %.3g GB/s of bus bandwidth", rows.size(),
                best == rows.end() ? 0.0 : best->busbw_gbps);
  step.seen = peak.data();
}

void AcceptanceRun::plan_configs(AcceptStep& step) {
  std::vector<reports::PlannedConfig> plans;
  std::string unexpected;
  std::size_t accepted = 0;
  for (AcceptConfig& config : result_.configs) {
    planner::PlanVerdict verdict = plan_verdict(planner::load_config(config.path), config.path);
    config.passed = verdict.plan.valid;
    for (const Diagnostic& diagnostic : verdict.plan.diagnostics) {
      config.messages += format(diagnostic);
    }
    accepted += config.passed ? 1 : 0;
    if (config.passed != config.should_pass) {
      unexpected +=
          "\n" + config.path +
          (config.passed ? " is accepted, and should not be" : " is rejected:\n" + config.messages);
    }
    plans.push_back({config.path, verdict.loaded, std::move(verdict.plan)});
  }
  step.document = "configs.json";
  write_file(options_.folder / step.document, reports::plan_json(plans));
  step.passed = unexpected.empty();
  step.seen = std::to_string(accepted) + " configs accepted, " +
              std::to_string(result_.configs.size() - accepted) + " rejected" +
              (step.passed ? ", each as it should be" : unexpected);
  if (!step.passed)
    step.next_step = "the configs or the build are not those of one version: install again";
}

void AcceptanceRun::parity(AcceptStep& step) const {
  const planner::LoadedConfig loaded =
      planner::load_config(options_.workload, {options_.overrides, ""});
  std::vector<std::string> arguments = {"parity", options_.workload, "--own-mesh", "--launcher",
                                        options_.threads ? "threads" : "mpirun"};
  for (const std::string& override : options_.overrides) {
    arguments.emplace_back("--set");
    arguments.push_back(override);
  }
  // Without its data the workload trains on what `nqd parity` makes up.
  if (loaded.ok() && !std::filesystem::exists(loaded.config.data.path)) {
    arguments.emplace_back("--set");
    arguments.emplace_back("data.path=");
  }
  if (!run_command(step, std::move(arguments), false)) return;
  const reports::JsonField document = parsed(options_.folder / step.document);
  const auto failed = document.at("failed").integer<int>();
  const auto passed = document.at("passed").integer<int>();
  step.passed = step.exit_code == 0 && failed == 0;
  step.seen = std::to_string(passed) + " of " + std::to_string(passed + failed) + " runs of " +
              options_.workload + " agree with one rank's";
  if (!step.passed) fail_by_cases(document, step);
}

}  // namespace nqd::cli

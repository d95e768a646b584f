// `nqd scale CONFIG`: trains a config on more and more ranks and says how throughput grows, and
// whether the model comes out as good.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/config_input.h"
#include "cli/launch/mpi_train.h"
#include "cli/launch/work_folder.h"
#include "cli/stop_signals.h"
#include "engine/data/training_data.h"
#include "engine/parity/data.h"
#include "engine/scale/campaign.h"
#include "engine/scale/figures.h"
#include "engine/train/on_threads.h"
#include "engine/train/preflight.h"
#include "reports/evidence.h"
#include "reports/html.h"
#include "reports/output.h"
#include "reports/scale_json.h"

namespace nqd::cli {
namespace {

namespace fs = std::filesystem;

struct Options {
  ConfigFlags config;
  engine::ScaleOptions scale;
  std::string regime = "both";
  bool json = false;
  std::string output;
  std::string html;
};

// Without data.path, text or series for the largest batch.
planner::LoadedConfig with_data(Options& options, const fs::path& folder) {
  planner::LoadedConfig base = load_or_throw(options.config, true);
  if (!base.config.data.path.empty()) return base;
  planner::Config largest = base.config;
  largest.train.steps = options.scale.warmup + options.scale.steps;
  largest.train.global_batch_size *= options.scale.ranks.back();
  const planner::Config generated = engine::with_generated_data(std::move(largest), folder);
  options.config.overrides.push_back("data.path=" + generated.data.path);
  return load_or_throw(options.config, false);
}

engine::TrainResult on_threads(const engine::ScaleTask& task, std::int64_t seed, bool verify) {
  planner::Plan plan = task.plan;
  plan.config.train.seed = seed;
  const engine::TrainingData data = engine::open_training_data(plan.config, verify);
  engine::TrainResult result = engine::train_on_threads(
      plan, data, {}, [](const engine::TrainResult&) { return stop_signal_came(); });
  throw_if_stopped();
  return result;
}

engine::TrainResult under_mpirun(const Options& options, const engine::ScaleTask& task,
                                 std::int64_t seed, const fs::path& folder) {
  MpiTraining training{options.config.path, options.config.overrides, task.point.ranks, folder, {}};
  training.overrides.insert(training.overrides.end(), task.overrides.begin(), task.overrides.end());
  training.overrides.push_back("train.seed=" + std::to_string(seed));
  training.overrides.push_back("checkpoint.path=" + (folder / "checkpoints").string());
  if (!options.config.cluster_file.empty()) {
    training.flags = {"--cluster", options.config.cluster_file};
  }
  MpiTrained trained = train_under_mpi(training);
  throw_if_stopped();
  if (!trained.complete) {
    throw Error(ExitCode::kFault, "NQD4050",
                std::to_string(task.point.ranks) + " ranks under mpirun ended with exit code " +
                    std::to_string(trained.exit_code) + ": " + trained.said,
                "run the same mesh alone with `mpirun -n " + std::to_string(task.point.ranks) +
                    " nqd train`");
  }
  return std::move(trained.result);
}

engine::ScaleResult measure(Options& options, const planner::LoadedConfig& base,
                            const fs::path& folder) {
  const bool mpi = options.scale.launcher == "mpirun";
  bool verify = true;
  int runs = 0;
  const engine::ScaleRunner runner = [&](const engine::ScaleTask& task, std::int64_t seed) {
    throw_if_stopped();
    if (!mpi) return on_threads(task, seed, std::exchange(verify, false));
    return under_mpirun(options, task, seed, folder / ("run" + std::to_string(runs++)));
  };
  std::vector<engine::ScaleTask> tasks = engine::scale_tasks(options.scale, base);
  return engine::run_scale(options.scale, base.config, std::move(tasks), runner,
                           [](const engine::ScalePoint& point, std::int64_t seed) {
                             log::info("seed " + std::to_string(seed) + ", " +
                                       std::string(name(point.regime)) + ", " +
                                       std::to_string(point.ranks) + " ranks (" + point.mesh + ")");
                           });
}

void check_outputs(const Options& options) {
  for (const auto& [flag, path] :
       {std::pair("--output", options.output), std::pair("--html", options.html)}) {
    if (path.empty()) continue;
    reports::check_output(path, {options.config.path}, "give the path of a file", flag);
  }
  if (!options.output.empty() && options.output == options.html) {
    throw Error(ExitCode::kUsage, "NQD2002", "--output and --html name one file, " + options.html,
                "give two paths");
  }
}

void complete(Options& options) {
  std::vector<std::int64_t>& ranks = options.scale.ranks;
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  options.scale.regimes = {engine::ScaleRegime::kEqualGlobalBatch,
                           engine::ScaleRegime::kEqualLocalBatch};
  if (const auto only = engine::parse_scale_regime(options.regime)) {
    options.scale.regimes = {*only};
  }
}

reports::Envelope envelope_of(const Options& options, const Context& context,
                              const planner::LoadedConfig& base) {
  reports::Envelope envelope = reports::begin_envelope("scale", context.argv);
  envelope.config_path = base.config.source;
  envelope.config_yaml = base.resolved_yaml;
  envelope.resolved = base.resolved;
  envelope.world_size_asked = static_cast<int>(options.scale.ranks.back());
  envelope.world_size_actual = envelope.world_size_asked;
  envelope.backend = options.scale.launcher == "mpirun" ? "mpi" : "local";
  return envelope;
}

int run(Options options, const Context& context) {
  complete(options);
  check_outputs(options);
  if (options.scale.launcher == "mpirun") require_mpirun();
  std::optional<AtomicFile> output;
  std::optional<AtomicFile> html;
  if (!options.output.empty()) output.emplace(options.output);
  if (!options.html.empty()) html.emplace(options.html);
  watch_interrupts();
  const WorkFolder work("scale");
  const planner::LoadedConfig base = with_data(options, work.path());
  engine::check_trainable(base.config);
  options.scale.config = options.config.path;
  options.scale.overrides = options.config.overrides;
  options.scale.cluster_file = options.config.cluster_file;
  reports::Evidence document;
  document.envelope = envelope_of(options, context, base);
  document.scale = measure(options, base, work.path());
  document.envelope.ended_at = reports::now_utc();
  document.path = options.output.empty() ? "scale.json" : options.output;
  const std::string json = reports::scale_json(document.envelope, document.scale);
  if (output) {
    output->write(json);
    output->commit();
  }
  if (html) {
    html->write(reports::render_html({document}));
    html->commit();
  }
  std::cout << (options.json ? json : reports::scale_text(document.scale));
  const bool ok = engine::scale_ok(document.scale, engine::scale_figures(document.scale));
  return ok ? 0 : static_cast<int>(ExitCode::kNo);
}

void add_flags(CLI::App& command, Options& options) {
  add_config_flags(command, options.config);
  command.add_option("--ranks", options.scale.ranks, "counts of ranks, such as 1,2,4,8")
      ->required()
      ->delimiter(',')
      ->type_name("N,N,...")
      ->check(CLI::Range(1, 1024));
  command.add_option("--seeds", options.scale.seeds, "runs of every point, from train.seed on")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command.add_option("--warmup", options.scale.warmup, "steps before the measured ones")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str();
  command.add_option("--steps", options.scale.steps, "measured steps")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  command
      .add_option("--regime", options.regime,
                  "equal-global-batch: the ranks share train.global_batch_size (strong scaling); "
                  "equal-local-batch: it grows with them (weak scaling)")
      ->check(CLI::IsMember({"equal-global-batch", "equal-local-batch", "both"}))
      ->capture_default_str();
  command
      .add_option("--margin", options.scale.margin,
                  "by what share of itself a held-out loss may differ and counts as equal")
      ->check(CLI::Range(1e-15, 1.0))
      ->capture_default_str();
  command.add_option("--launcher", options.scale.launcher, "threads of this process, or mpirun")
      ->check(CLI::IsMember({"threads", "mpirun"}))
      ->capture_default_str();
  command.add_flag("--json", options.json, "print the evidence document on stdout");
  command.add_option("--output", options.output, "also write the evidence document to a file")
      ->type_name("FILE");
  command.add_option("--html", options.html, "also write a page (HTML) that shows it")
      ->type_name("FILE");
}

}  // namespace

void add_scale_command(CLI::App& app, Context& context) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "scale", "Train a config on more and more ranks: throughput, efficiency, equal quality");
  add_flags(*command, *options);
  command->footer(
      "Exit status: 0 quality holds at every point, 1 it does not or a count of ranks "
      "is refused.");
  command->callback([options, &context] { context.exit_code = run(*options, context); });
}

}  // namespace nqd::cli

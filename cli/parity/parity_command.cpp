// `nqd parity CONFIG…`: trains every config on many meshes and compares each run with the one on a
// single rank.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/config_input.h"
#include "cli/launch/mpi_train.h"
#include "cli/launch/work_folder.h"
#include "cli/parity/mpi_run.h"
#include "cli/stop_signals.h"
#include "engine/data/training_data.h"
#include "engine/parity/compare.h"
#include "engine/parity/data.h"
#include "engine/parity/matrix.h"
#include "engine/train/preflight.h"
#include "reports/parity_json.h"

namespace nqd::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  std::vector<std::string> configs;
  std::vector<std::string> overrides;
  bool quick = false;
  bool full = false;
  bool own_mesh = false;
  std::string launcher = "both";
  bool json = false;
  std::string output;
};

class ParitySession {
 public:
  explicit ParitySession(const Options& options) : options_(options) {
    if (options.launcher == "threads" || has_mpirun()) return;
    if (options.launcher == "mpirun") require_mpirun();
    log::warn(
        "mpirun is not on the PATH: runs of processes count as failed; --launcher threads leaves "
        "them out");
  }

  void run(const std::string& path, std::size_t index) {
    const std::filesystem::path folder = work_.path() / std::to_string(index);
    planner::Config base = load_or_throw({path, options_.overrides, ""}, true).config;
    if (!options_.own_mesh) base.parallel.world_size_given = false;
    const bool generated = base.data.path.empty();
    if (generated) base = engine::with_generated_data(std::move(base), folder);
    engine::check_trainable(base);
    const engine::TrainingData data = engine::open_training_data(base, true);
    datasets_.push_back({path, data.digest, generated || data.synthetic});
    references_.clear();
    const std::vector<engine::ParityCell> cells = engine::parity_cells(base, depth());
    const auto can_run = [&](const auto& cell) { return wanted(cell) && cell.broken_rule.empty(); };
    if (std::none_of(cells.begin(), cells.end(), can_run)) {
      throw Error(ExitCode::kUsage, "NQD1401",
                  path + ": no mesh of the matrix can run it; " + cells.front().broken_rule,
                  "set train.global_batch_size to 24, which every mesh divides");
    }
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (!wanted(cells[i])) continue;
      log::info(path + ": " + std::to_string(i + 1) + " of " + std::to_string(cells.size()) + ": " +
                std::string(name(cells[i].config.parallel.engine)) + " " + cells[i].mesh() +
                (cells[i].saved_by ? " from " + cells[i].resumed_from() : ""));
      run_cell(path, cells[i], data, folder / ("cell" + std::to_string(i)));
    }
  }

  const std::vector<reports::ParityCase>& cases() const { return cases_; }
  const std::vector<reports::ParityDataset>& datasets() const { return datasets_; }

 private:
  // Of cells that are compared with one run.
  using Key = std::tuple<planner::Precision, collectives::Numerics, std::int64_t>;

  engine::ParityDepth depth() const {
    if (options_.own_mesh) return engine::ParityDepth::kOwnMesh;
    if (options_.full) return engine::ParityDepth::kFull;
    return options_.quick ? engine::ParityDepth::kQuick : engine::ParityDepth::kDefault;
  }
  bool wanted(const engine::ParityCell& cell) const {
    if (cell.under_mpi) return options_.launcher != "threads";
    return options_.launcher != "mpirun";
  }

  // A cell that does not run proves nothing, and counts as failed.
  static std::string why_not(const engine::ParityCell& cell) {
    if (!cell.broken_rule.empty()) return "cannot run: " + cell.broken_rule;
    if (cell.under_mpi && !has_mpirun()) return "cannot run: mpirun is not on the PATH";
    return {};
  }

  void run_cell(const std::string& path, const engine::ParityCell& cell,
                const engine::TrainingData& data, const std::filesystem::path& folder) {
    reports::ParityCase& one = cases_.emplace_back();
    one.config = path;
    one.cell = cell;
    one.outcome.reason = why_not(cell);
    if (!one.outcome.reason.empty()) return;
    const auto start = Clock::now();
    const engine::ParityRun run = cell.under_mpi
                                      ? run_under_mpi(cell, path, options_.overrides, folder)
                                      : engine::run_on_threads(cell, data, folder);
    throw_if_stopped();
    const std::chrono::duration<double> seconds = Clock::now() - start;
    one.outcome = engine::compare(cell, run, reference(cell, data));
    one.losses = run.losses;
    one.heldout_loss = run.heldout_loss;
    one.seconds = seconds.count();
  }

  const engine::ParityRun& reference(const engine::ParityCell& cell,
                                     const engine::TrainingData& data) {
    const Key key{cell.config.train.precision, cell.config.numerics.mode, cell.config.train.steps};
    const auto known = references_.find(key);
    if (known != references_.end()) return known->second;
    return references_.emplace(key, engine::run_on_threads(engine::reference_of(cell.config), data))
        .first->second;
  }

  const Options& options_;
  WorkFolder work_{"parity"};
  std::map<Key, engine::ParityRun> references_;
  std::vector<reports::ParityCase> cases_;
  std::vector<reports::ParityDataset> datasets_;
};

int run(const Options& options, const Context& context) {
  reports::Envelope envelope = reports::begin_envelope("parity", context.argv);
  std::optional<AtomicFile> file;
  if (!options.output.empty()) file.emplace(options.output);
  watch_interrupts();
  ParitySession session(options);
  for (std::size_t i = 0; i < options.configs.size(); ++i) session.run(options.configs[i], i);
  const std::string document = reports::parity_json(envelope, session.datasets(), session.cases());
  if (file) {
    file->write(document);
    file->commit();
  }
  std::cout << (options.json ? document : reports::parity_text(session.cases()));
  const auto failed = [](const reports::ParityCase& one) {
    return one.outcome.verdict == engine::ParityVerdict::kFailed;
  };
  const bool any = std::any_of(session.cases().begin(), session.cases().end(), failed);
  return any ? static_cast<int>(ExitCode::kNo) : 0;
}

}  // namespace

void add_parity_command(CLI::App& app, Context& context) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "parity", "Train a config on many meshes and compare every run with a single rank's");
  command->add_option("config", options->configs, "configs of one rank, as in configs/parity/")
      ->required()
      ->type_name("CONFIG");
  command->add_option("--set", options->overrides, "override a value, such as train.steps=5")
      ->type_name("KEY=VALUE");
  auto* quick = command->add_flag("--quick", options->quick, "a few meshes of each kind");
  auto* full =
      command->add_flag("--full", options->full, "every combination: hours")->excludes(quick);
  command
      ->add_flag("--own-mesh", options->own_mesh,
                 "the mesh of the config alone, in canonical and in fast numerics")
      ->excludes(quick)
      ->excludes(full);
  command
      ->add_option("--launcher", options->launcher,
                   "threads, mpirun, or both (the default: threads, and some cells under mpirun)")
      ->check(CLI::IsMember({"threads", "mpirun", "both"}));
  command->add_flag("--json", options->json, "print the evidence document on stdout");
  command->add_option("--output", options->output, "also write the evidence document to a file")
      ->type_name("FILE");
  command->callback([options, &context] { context.exit_code = run(*options, context); });
}

}  // namespace nqd::cli

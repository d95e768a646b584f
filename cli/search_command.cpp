// `nqd search CONFIG`: ranks every legal plan for the model on the cluster.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/diagnostic.h"
#include "base/error.h"
#include "base/file.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/config_input.h"
#include "planner/config/config.h"
#include "planner/search/plan_config.h"
#include "planner/search/search.h"
#include "planner/search/search_text.h"
#include "planner/search/sweep.h"
#include "planner/search/why.h"
#include "reports/output.h"
#include "reports/search_json.h"

namespace nqd::cli {
namespace {

namespace ps = planner::search;

constexpr std::size_t kDefaultTop = 10;

struct Options {
  std::string path;
  planner::LoadOptions load;
  std::string objective = "step_time";
  std::vector<std::string> fixed;
  std::string why;
  std::vector<std::string> sweeps;
  std::string memory_limit;
  std::string output;
  std::size_t top = 0;  // 0 = not given
  int threads = 0;
  bool fewer_gpus = false;
  bool variants = false;
  bool pareto = false;
  bool json = false;
};

// Loads a config of which the mesh may be wrong: it is what the search is for. Values of `swept`
// were overridden by --sweep.
planner::LoadedConfig load(const std::string& path, const planner::LoadOptions& options,
                           const std::vector<ps::SweepAxis>& swept = {}) {
  planner::LoadedConfig loaded = planner::load_config(path, options);
  std::vector<Diagnostic> findings = ps::lasting_findings(loaded);
  for (Diagnostic& finding : findings) {
    const auto concerns = [&](const ps::SweepAxis& axis) { return axis.path == finding.path; };
    const bool of_sweep = std::any_of(swept.begin(), swept.end(), concerns);
    if (of_sweep && finding.where.file == "--set") finding.where.file = "--sweep";
    std::cerr << format(finding);
  }
  if (has_errors(findings)) {
    throw ConfigError(is_malformed(findings) ? ExitCode::kUsage : ExitCode::kNo,
                      "config " + path + " is not valid", findings);
  }
  return loaded;
}

ps::SearchOptions search_options(const Options& options) {
  ps::SearchOptions search;
  search.objective = *ps::parse_objective(options.objective);
  for (const std::string& list : options.fixed) ps::read_fixed(list, search.fixed);
  // Of plans on different numbers of devices these two objectives have something to say.
  search.fewer_gpus = options.fewer_gpus || search.objective == ps::Objective::kCost ||
                      search.objective == ps::Objective::kGpus;
  search.one_a_mesh = !options.variants;
  search.keep = options.top > 0 ? options.top : kDefaultTop;
  search.threads = options.threads;
  if (!options.memory_limit.empty()) {
    const auto bytes = parse_bytes(options.memory_limit);
    if (!bytes || *bytes == 0) {
      throw CLI::ValidationError("--memory-limit", "\"" + options.memory_limit +
                                                       "\" is not a size; write 72 GB or 64 GiB");
    }
    search.limit_bytes = static_cast<double>(*bytes);
  }
  return search;
}

// The first `count` plans in detail; the best ten are simulated too.
std::vector<ps::Detail> details(const planner::Config& config, const ps::SearchResult& result,
                                std::size_t count) {
  std::vector<ps::Detail> plans;
  const std::vector<ps::Score>& best = result.found.best;
  for (std::size_t i = 0; i < std::min(count, best.size()); ++i) {
    plans.push_back(ps::detail_of(config, best[i], result.limit_bytes, i < kDefaultTop));
  }
  return plans;
}

int run_sweep(const Options& options) {
  std::vector<ps::SweepAxis> axes;
  for (const std::string& sweep : options.sweeps) axes.push_back(ps::read_sweep(sweep));
  const ps::SearchOptions search = search_options(options);
  std::vector<ps::SweepPoint> points;
  bool any = false;
  for (std::vector<std::string>& values : ps::sweep_points(axes)) {
    planner::LoadOptions at = options.load;
    for (std::size_t i = 0; i < axes.size(); ++i) {
      at.overrides.push_back(axes[i].path + "=" + values[i]);
    }
    ps::SweepPoint point;
    point.values = std::move(values);
    point.config = ps::start_of(load(options.path, at, axes));
    point.result = ps::search(point.config, search);
    point.plans = details(point.config, point.result, 1);
    any = any || !point.plans.empty();
    points.push_back(std::move(point));
  }
  std::cout << (options.json ? reports::sweep_json(points.front().config, axes, points)
                             : ps::sweep_text(axes, points));
  return static_cast<int>(any ? ExitCode::kOk : ExitCode::kNo);
}

void write_best(const Options& options, const planner::LoadedConfig& loaded,
                const planner::Config& config, const ps::SearchResult& result) {
  if (options.output.empty() || result.found.best.empty()) return;
  const planner::Config planned = ps::config_of(config, result.found.best.front().candidate);
  write_file(options.output, "# The best plan that `nqd search " + options.path + "` found.\n" +
                                 ps::plan_yaml(loaded, options.load, planned));
}

int run_search(const Options& options) {
  const planner::LoadedConfig loaded = load(options.path, options.load);
  const planner::Config config = ps::start_of(loaded);
  const ps::SearchOptions search = search_options(options);
  ps::Fixed asked;
  ps::read_fixed(options.why, asked);
  const ps::SearchResult result = ps::search(config, search);
  // JSON is complete unless it was limited; a person reads the first few.
  const bool all = options.json && options.top == 0;
  const std::vector<ps::Detail> plans =
      details(config, result, all ? result.found.best.size() : search.keep);
  std::optional<ps::Why> why;
  if (!options.why.empty()) why = ps::explain_plan(config, search, asked);
  if (options.json) {
    std::cout << reports::search_json(config, result, plans, why);
  } else {
    std::cout << ps::search_text(config, result, plans);
    if (options.pareto) std::cout << "\n" << ps::front_text(result);
    if (why) std::cout << "\n" << ps::why_text(*why);
  }
  write_best(options, loaded, config, result);
  const bool no = plans.empty() || (why && !why->plan);
  return static_cast<int>(no ? ExitCode::kNo : ExitCode::kOk);
}

int run(const Options& options) {
  if (!options.output.empty()) {
    reports::check_output(options.output, {options.path},
                          "the plan's config is written to a file alone");
  }
  if (options.sweeps.empty()) return run_search(options);
  if (!options.why.empty() || !options.output.empty()) {
    throw CLI::ValidationError("--sweep", "--why and --output are about a single search");
  }
  return run_sweep(options);
}

void add_question_flags(CLI::App& command, Options& options) {
  command
      .add_option("--why", options.why,
                  "explain a plan's place, or why there is none: tp=8,pp=4,engine=zero1")
      ->type_name("PLAN");
  command
      .add_option("--sweep", options.sweeps,
                  "search for each value of a key: nodes=8,16,32, nic=200Gb/s,400Gb/s, "
                  "sequence=8192,32768, or the path of any key; several combine")
      ->type_name("KEY=VALUES")
      ->allow_extra_args(false);
}

}  // namespace

void add_search_command(CLI::App& app, Context& context) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "search", "Rank every legal plan for a model, a global batch and a cluster");
  command->add_option("config", options->path, "config file (YAML); its mesh is not needed")
      ->required()
      ->type_name("CONFIG");
  command->add_option("--set", options->load.overrides, "override a value: key=value")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command
      ->add_option("--cluster", options->load.cluster_file,
                   "calibration that `nqd calibrate` wrote")
      ->type_name("FILE");
  command->add_option("--objective", options->objective, "what makes a plan the best")
      ->check(CLI::IsMember({"step_time", "memory", "cost", "gpus"}))
      ->capture_default_str();
  command->add_option("--fix", options->fixed, "hold axes of the plan: tp=8,engine=zero1")
      ->type_name("PLAN")
      ->allow_extra_args(false);
  command
      ->add_option("--top", options->top,
                   "plans to print (default 10; --json without it: every mesh)")
      ->check(CLI::Range(1, 1 << 20))
      ->type_name("K");
  command
      ->add_option("--memory-limit,--fast-memory-limit", options->memory_limit,
                   "bytes of a device that a plan may take: 72 GB; default: all")
      ->type_name("SIZE");
  command->add_flag("--fewer-gpus", options->fewer_gpus,
                    "also plan for parts of the cluster; implied by --objective cost and gpus");
  command->add_flag("--variants", options->variants,
                    "list all kinds of plans, not the best of each dp x tp x pp x cp x ep");
  command->add_flag("--pareto", options->pareto,
                    "also print the plans that none beats in step time, memory and devices at "
                    "once; --json always holds them");
  add_question_flags(*command, *options);
  command
      ->add_option("-o,--output", options->output,
                   "write the best plan there as a config that mesh-plan accepts")
      ->type_name("FILE");
  command->add_option("--threads", options->threads, "default: one a core")
      ->check(CLI::Range(1, 4096))
      ->type_name("N");
  command->add_flag("--json", options->json, "print JSON");
  command->footer(
      "Exit status: 0 a plan fits, 1 none does or the plan of --why does not, 2 the config is "
      "malformed.");
  command->callback([options, &context] { context.exit_code = run(*options); });
}

}  // namespace nqd::cli

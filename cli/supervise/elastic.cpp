#include "cli/supervise/elastic.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "engine/train/preflight.h"
#include "planner/planner.h"
#include "planner/search/detail.h"
#include "planner/search/plan_config.h"
#include "planner/search/search.h"

namespace nqd::cli {
namespace {

namespace ps = planner::search;

std::string mesh_text(const planner::Config& config) {
  return ps::mesh_text(planner::candidate_of(config)) + ", " +
         std::string(name(config.parallel.engine));
}

// The plan as the run would load it, if its engine runs it.
std::optional<MeshProposal> accepted(const ConfigFlags& flags, const planner::Config& planned) {
  MeshProposal proposal;
  proposal.ranks = static_cast<int>(planned.parallel.ranks());
  proposal.mesh = mesh_text(planned);
  proposal.overrides = ps::plan_overrides(planned);
  planner::LoadOptions options{flags.overrides, flags.cluster_file};
  options.overrides.insert(options.overrides.end(), proposal.overrides.begin(),
                           proposal.overrides.end());
  const planner::LoadedConfig loaded = planner::load_config(flags.path, options);
  if (!loaded.ok() || !planner::make_plan(loaded.config).valid) return std::nullopt;
  try {
    engine::check_trainable(loaded.config);
  } catch (const Error&) {
    return std::nullopt;
  }
  return proposal;
}

// What stays as it is in the config. The micro-batch and the recomputation decide the bits, the
// rest decides nothing that a run would miss: it stays where the planner knows no times to choose
// by.
std::vector<ps::Fixed> choices_of(const planner::Config& config) {
  const planner::Candidate now = planner::candidate_of(config);
  ps::Fixed bits;
  bits.micro_batch_size = now.micro_batch_size;
  bits.recompute = now.recompute;
  ps::Fixed all = bits;
  all.tp = now.tp;
  all.pp = now.pp;
  all.engine = now.engine;
  return {all, bits, {}};
}

std::optional<MeshProposal> propose(const ConfigFlags& flags, int ranks) {
  planner::LoadOptions options{flags.overrides, flags.cluster_file};
  options.overrides.emplace_back("cluster.nodes=1");
  options.overrides.push_back("cluster.gpus_per_node=" + std::to_string(ranks));
  const planner::LoadedConfig loaded = planner::load_config(flags.path, options);
  const std::vector<Diagnostic> findings = ps::lasting_findings(loaded);
  if (has_errors(findings)) {
    throw ConfigError(ExitCode::kUsage, "config " + flags.path + " is not valid", findings);
  }
  const planner::Config config = ps::start_of(loaded);
  std::vector<ps::Fixed> choices = choices_of(config);
  ps::SearchOptions search;
  search.fixed = choices[1];
  if (ps::search(config, search).time_known()) choices.erase(choices.begin());
  for (const ps::Fixed& fixed : choices) {
    search.fixed = fixed;
    for (const ps::Score& score : ps::search(config, search).found.best) {
      const planner::Config planned = ps::config_of(config, score.candidate);
      if (auto proposal = accepted(flags, planned)) return proposal;
    }
  }
  return std::nullopt;
}

}  // namespace

MeshProposal propose_mesh(const ConfigFlags& config, int most) {
  for (int ranks = most; ranks > 0; --ranks) {
    if (auto proposal = propose(config, ranks)) return *proposal;
  }
  throw Error(ExitCode::kNo, "NQD1406",
              "no mesh of " + std::to_string(most) + " ranks or fewer runs " + config.path +
                  " with its global batch",
              "`nqd search` says why; add hosts to --spares");
}

std::string mesh_of(const ConfigFlags& config) {
  const planner::LoadedConfig loaded =
      planner::load_config(config.path, {config.overrides, config.cluster_file});
  return mesh_text(loaded.config);
}

}  // namespace nqd::cli

#include "cli/supervise/placement.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"

namespace nqd::cli {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ExitCode::kUsage, "NQD1405", what,
              "write it as `nqd supervise --hosts a:2,b:2 --spares c:2 -- mpirun -host {hosts} -n "
              "{ranks} nqd train CONFIG --resume auto`");
}

bool mentions(const std::vector<std::string>& command, const std::string& what) {
  return std::any_of(command.begin(), command.end(),
                     [&](const std::string& word) { return word.find(what) != std::string::npos; });
}

}  // namespace

Placement::Placement(const PlacementOptions& options, const std::vector<std::string>& command,
                     const TrainCommand& run)
    : elastic_(options.elastic),
      command_(command),
      config_{run.config, run.overrides, run.cluster_file} {
  if (options.hosts.empty()) {
    if (!options.spares.empty() || elastic_) refuse("--spares and --elastic need --hosts");
    return;
  }
  if (!mentions(command, "{hosts}")) refuse("the command behind -- has no {hosts}");
  if (elastic_ && !mentions(command, "{ranks}")) {
    refuse("the command behind -- has no {ranks}, which --elastic changes");
  }
  std::vector<HostSlots> spares;
  if (!options.spares.empty()) spares = parse_hosts("--spares", options.spares);
  pool_.emplace(parse_hosts("--hosts", options.hosts), std::move(spares));
  ranks_ = pool_->slots();
}

std::vector<std::string> Placement::command() const {
  if (!pool_) return command_;
  std::vector<std::string> words = filled_in(command_, *pool_, ranks_);
  if (!mesh_) return words;
  for (const std::string& override : mesh_->overrides) {
    words.emplace_back("--set");
    words.push_back(override);
  }
  return words;
}

void Placement::describe(Attempt& attempt) const {
  if (!pool_) return;
  for (const HostSlots& host : pool_->hosts()) attempt.hosts.push_back(host.name);
  attempt.left_out = pool_->left_out();
  if (mesh_) attempt.mesh = mesh_->mesh;
}

bool Placement::learn(const std::vector<HostFault>& faults, bool stepped) {
  if (!pool_) return false;
  bool changed = false;
  for (const Suspects::Decision& decision : suspects_.judge(faults, stepped)) {
    changed = leave_out(decision) || changed;
  }
  return changed;
}

bool Placement::leave_out(const Suspects::Decision& decision) {
  const std::string name = pool_->listed(decision.host);
  if (name.empty()) {
    log::warn("host " + decision.host + " is at fault, but none of --hosts: " + decision.why);
    return false;
  }
  const bool same_ranks = pool_->can_spare(name, ranks_);
  if (!same_ranks && (!elastic_ || !pool_->can_spare(name, 1))) {
    log::warn("host " + name + " is at fault, and there is no spare for it" +
              (elastic_ ? "" : " (--elastic goes on with fewer ranks)") + ": " + decision.why);
    return false;
  }
  pool_->leave_out(name, ranks_);
  std::string how = "the run goes on on " + pool_->text();
  if (!same_ranks) {
    const std::string before = mesh_ ? mesh_->mesh : mesh_of(config_);
    mesh_ = propose_mesh(config_, pool_->slots());
    ranks_ = mesh_->ranks;
    how +=
        " with " + std::to_string(ranks_) + " ranks: " + mesh_->mesh + " (it had " + before + ")";
  }
  log::warn("host " + name + " is left out: " + decision.why + "\n  " + how);
  return true;
}

}  // namespace nqd::cli

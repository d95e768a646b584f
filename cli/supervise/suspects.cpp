#include "cli/supervise/suspects.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "engine/train/stragglers.h"
#include "reports/canary_json.h"
#include "reports/evidence.h"

namespace nqd::cli {
namespace {

std::optional<std::filesystem::file_time_type> written(const std::filesystem::path& path) {
  std::error_code error;
  const auto time = std::filesystem::last_write_time(path, error);
  return error ? std::nullopt : std::optional(time);
}

// Nothing for a document that cannot be read: the run that wrote it had other troubles.
std::optional<reports::Evidence> evidence_of(const std::filesystem::path& path) {
  try {
    return reports::read_evidence(path);
  } catch (const Error&) {
    return std::nullopt;
  }
}

bool stops_for_stragglers(const reports::Envelope& envelope) {
  return std::any_of(envelope.resolved.begin(), envelope.resolved.end(),
                     [](const planner::ResolvedValue& value) {
                       return value.path == "guard.straggler_stop" && value.value == "true";
                     });
}

// Of those that the run was stopped for, behind the step at which it named them.
std::vector<HostFault> straggling_hosts(const reports::Evidence& evidence) {
  const engine::TrainResult& run = evidence.train;
  std::vector<HostFault> faults;
  if (!run.stopped || run.steps.empty() || !stops_for_stragglers(evidence.envelope)) return faults;
  for (const engine::StragglerRecord& one : run.stragglers) {
    const bool known = std::any_of(faults.begin(), faults.end(),
                                   [&](const HostFault& fault) { return fault.host == one.host; });
    if (one.step != run.steps.back().step || known) continue;
    faults.push_back({one.host, engine::describe(one), true});
  }
  return faults;
}

std::vector<std::string> slow_hosts_of(const std::filesystem::path& path) {
  try {
    return reports::read_slow_hosts(path);
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

RunVerdicts::RunVerdicts(std::filesystem::path folder) : folder_(std::move(folder)) { snapshot(); }

void RunVerdicts::snapshot() {
  judged_ = evidence_before_ = written(evidence());
  canary_before_ = written(canary());
  fault_ = false;
}

bool RunVerdicts::has_fault() {
  const Time now = written(evidence());
  if (now != judged_) {
    const auto found = evidence_of(evidence());
    fault_ = found && found->train.fault;
  }
  judged_ = now;
  return fault_;
}

std::vector<HostFault> RunVerdicts::read() const {
  std::vector<HostFault> faults;
  if (written(evidence()) != evidence_before_) {
    const std::optional<reports::Evidence> found = evidence_of(evidence());
    if (found) faults = straggling_hosts(*found);
    const auto fault = found ? found->train.fault : std::nullopt;
    if (fault && !fault->lost_host.empty()) {
      faults.push_back({fault->lost_host, fault->message, fault->code == "NQD4002"});
    }
  }
  if (written(canary()) != canary_before_) {
    for (const std::string& host : slow_hosts_of(canary())) {
      faults.push_back({host, "the canary found it slow", true});
    }
  }
  return faults;
}

std::vector<Suspects::Decision> Suspects::judge(const std::vector<HostFault>& faults,
                                                bool stepped) {
  std::vector<Decision> decisions;
  std::string lost;
  for (const HostFault& fault : faults) {
    if (fault.certain) {
      decisions.push_back({fault.host, fault.why});
      continue;
    }
    lost = fault.host;
    if (++losses_[fault.host] > 1) {
      decisions.push_back({fault.host, "a process on it died a second time: " + fault.why});
    }
  }
  if (faults.empty() && !stepped && !last_lost_.empty()) {
    decisions.push_back({last_lost_, "a process on it died, and with it the run no longer starts"});
  }
  last_lost_ = std::move(lost);
  return decisions;
}

}  // namespace nqd::cli

#include "cli/supervise/suspects.h"

#include <utility>

#include "base/error.h"
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
std::optional<engine::FaultRecord> fault_of(const std::filesystem::path& path) {
  try {
    return reports::read_evidence(path).train.fault;
  } catch (const Error&) {
    return std::nullopt;
  }
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
  if (now != judged_) fault_ = fault_of(evidence()).has_value();
  judged_ = now;
  return fault_;
}

std::vector<HostFault> RunVerdicts::read() const {
  std::vector<HostFault> faults;
  if (written(evidence()) != evidence_before_) {
    const std::optional<engine::FaultRecord> fault = fault_of(evidence());
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

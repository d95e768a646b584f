// Which host an attempt that ended says is at fault.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace nqd::cli {

struct HostFault {
  std::string host;  // as it names itself
  std::string why;
  // False: its process died, which may not happen again. True: it did not answer, or is slow.
  bool certain = false;
};

// What a run's folder says of its hosts: the fault of evidence.json (NQD4001 names a host whose
// process died, NQD4002 one that does not answer), its stragglers where guard.straggler_stop ended
// the run for them, and the slow hosts of canary.json. Only files that were written after
// `snapshot` was made count.
class RunVerdicts {
 public:
  explicit RunVerdicts(std::filesystem::path folder);
  // From now on: the files as they are say nothing.
  void snapshot();
  std::vector<HostFault> read() const;
  // Whether the run has reported a fault since. Reads a file only when it has changed.
  bool has_fault();

 private:
  using Time = std::optional<std::filesystem::file_time_type>;
  std::filesystem::path evidence() const { return folder_ / "evidence.json"; }
  std::filesystem::path canary() const { return folder_ / "canary.json"; }

  std::filesystem::path folder_;
  Time evidence_before_;
  Time canary_before_;
  Time judged_;  // the evidence that has_fault has read
  bool fault_ = false;
};

// Decides when a host has had its chances: at once when it does not answer or is slow; when its
// processes died in two attempts; or when its process died, and then an attempt with it ended
// before a step was made, as a launcher does that no longer reaches it.
class Suspects {
 public:
  struct Decision {
    std::string host;
    std::string why;
  };
  // `faults` of the attempt that ended, `stepped`: it had made a step.
  std::vector<Decision> judge(const std::vector<HostFault>& faults, bool stepped);

 private:
  std::map<std::string, int> losses_;
  std::string last_lost_;  // by the attempt before
};

}  // namespace nqd::cli

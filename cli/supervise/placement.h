// Where the attempts of a supervised run go: hosts that are at fault are left out, spares take
// their place, and a run without any goes on with fewer ranks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/supervise/attempts.h"
#include "cli/supervise/elastic.h"
#include "cli/supervise/hosts.h"
#include "cli/supervise/suspects.h"

namespace nqd::cli {

struct PlacementOptions {
  std::string hosts;   // "a:2,b:2"; empty: the command says where it runs
  std::string spares;  // likewise; may be empty
  bool elastic = false;
};

class Placement {
 public:
  // Throws Error (kUsage, NQD1405) for hosts that cannot be read, spares or --elastic without
  // --hosts, and a command without {hosts}, or of --elastic without {ranks}.
  Placement(const PlacementOptions& options, const std::vector<std::string>& command,
            const TrainCommand& run);

  // Of the next attempt.
  std::vector<std::string> command() const;
  // What an attempt's record says of it.
  void describe(Attempt& attempt) const;

  // After an attempt that failed, with what its run said of its hosts; `stepped`: it had made a
  // step. Logs what it decides. True when the next attempt is another one: without a host, or with
  // another mesh.
  bool learn(const std::vector<HostFault>& faults, bool stepped);

 private:
  bool leave_out(const Suspects::Decision& decision);

  const bool elastic_;
  const std::vector<std::string> command_;
  const ConfigFlags config_;
  std::optional<HostPool> pool_;  // with --hosts
  int ranks_ = 0;
  std::optional<MeshProposal> mesh_;  // in place of the config's
  Suspects suspects_;
};

}  // namespace nqd::cli

// What a sweep's numbers say about the run itself.
#pragma once

#include <string>
#include <vector>

#include "collectives/bench/bench.h"
#include "collectives/communicator.h"

namespace nqd::collectives {

// A host of the world: its ranks, and the CPUs that they may use together.
struct HostShare {
  std::string host;
  int ranks = 0;
  int cpus = 0;
};

// Collective. In the order of each host's first rank. CPUs are the union of the affinity masks of
// the host's ranks (a launcher may bind each rank to another core), within a cgroup's quota.
std::vector<HostShare> host_shares(Communicator& world);

// "oversubscribed", "wrong-result", "byte-count-mismatch", "high-variance", for each that holds.
// `miscounted_rows` are rows in which some rank's counted traffic was not what cost.h says.
std::vector<Verdict> judge(const std::vector<BenchRow>& rows,
                           const std::vector<std::size_t>& miscounted_rows,
                           const std::vector<HostShare>& hosts);

}  // namespace nqd::collectives

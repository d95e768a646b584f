// The circumstances of a measurement: where each rank ran, and what its host looked like before and
// after.
#pragma once

#include <string>
#include <vector>

#include "base/environment.h"
#include "base/machine.h"
#include "collectives/communicator.h"

namespace nqd::collectives {

struct RankRecord {
  std::string host;
  std::vector<int> cpus;        // that it may run on
  std::vector<int> numa_nodes;  // that these belong to
  int threads = 1;              // OMP_NUM_THREADS
  // Whether it can read the private memory of another rank of its host: "allowed", "not needed"
  // (ranks are threads, or alone on their host), or "refused: " and why.
  std::string cross_memory;
  Variables environment;  // the allow-listed part
};

struct HostRecord {
  std::string host;
  int ranks = 0;
  int usable_cpus = 0;  // the union of its ranks' CPUs, within a cgroup's quota
  MachineState start;
  MachineState end;
};

struct MachineRecord {
  std::vector<RankRecord> ranks;  // by rank
  std::vector<HostRecord> hosts;  // in the order of each host's first rank
};

// Collective. Every rank gets the record; `end` of its hosts is what `start` is until
// finish_record.
MachineRecord begin_record(Communicator& world);
// Collective. Reads the hosts again.
void finish_record(Communicator& world, MachineRecord& record);

// Collective. Every rank's text, in rank order.
std::vector<std::string> gather_texts(Communicator& world, const std::string& mine);

}  // namespace nqd::collectives

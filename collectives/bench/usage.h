// What the kernel had to do for a rank while it was timed.
#pragma once

#include <sys/resource.h>

#include <vector>

namespace nqd::collectives {

class Communicator;

// Of one rank, each divided by the calls.
struct RankUsage {
  double minor_faults = 0;          // pages made or mapped without I/O
  double major_faults = 0;          // pages read from a disk
  double voluntary_switches = 0;    // the rank waited asleep or gave its CPU away
  double involuntary_switches = 0;  // the kernel took its CPU for somebody else
};

// From its construction to per_call(), of the calling thread (getrusage RUSAGE_THREAD): a rank's
// other threads watch its peers and sleep otherwise.
class UsageMeter {
 public:
  UsageMeter();
  RankUsage per_call(int calls) const;

 private:
  rusage start_{};
};

// Collective. Every rank's usage, in rank order.
std::vector<RankUsage> gather_usage(Communicator& world, const RankUsage& mine);

}  // namespace nqd::collectives

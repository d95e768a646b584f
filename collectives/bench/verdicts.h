// What a measurement's numbers and circumstances say about the run itself. docs/bench.md lists
// every verdict with its threshold and next step.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "collectives/bench/bench.h"
#include "collectives/bench/machine_record.h"

namespace nqd::collectives {

// What a measurement found, for its judges.
struct Findings {
  std::span<const BenchRow> rows;
  // Rows in which some rank's counted traffic was not what cost.h says.
  std::vector<std::size_t> miscounted_rows;
  const MachineRecord& machine;
  bool ranks_are_processes = true;
  // Bytes a second between nodes that the user's cluster file promises; 0 = no file.
  double promised_bytes_per_s = 0;
};

// All verdicts of a sweep.
std::vector<Verdict> judge(const Findings& findings);

// The parts, each for one kind of evidence; they append.
// wrong-result, byte-count-mismatch, page-fault-collapse, latency-bound, high-variance.
void judge_rows(const Findings& findings, std::vector<Verdict>& verdicts);
// oversubscribed, unbound, cma-denied: what every command under a launcher can say.
void judge_placement(const Findings& findings, std::vector<Verdict>& verdicts);
// socket-fallback, wrong-interface, one-rail.
void judge_fabric(const Findings& findings, std::vector<Verdict>& verdicts);

// Of a run whose launcher started `launched` ranks of which each is alone in its world.
Verdict singletons_verdict(int launched, const std::string& evidence);

}  // namespace nqd::collectives

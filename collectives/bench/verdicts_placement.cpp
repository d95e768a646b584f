// Verdicts on where the ranks of a run were put.
#include <algorithm>
#include <string>

#include "collectives/bench/verdicts.h"

namespace nqd::collectives {
namespace {

void judge_shares(const MachineRecord& machine, std::vector<Verdict>& verdicts) {
  for (const HostRecord& host : machine.hosts) {
    if (host.ranks <= host.usable_cpus) continue;
    verdicts.push_back({"oversubscribed", "warning", "certain",
                        std::to_string(host.ranks) + " ranks share " +
                            std::to_string(host.usable_cpus) + " usable CPUs on host " + host.host,
                        "ranks <= usable CPUs",
                        "ranks wait for a CPU, not for the fabric, so times say little about it",
                        "run at most " + std::to_string(host.usable_cpus) + " ranks on this host"});
  }
}

// A rank of this host that may run on more CPUs than its even share, the widest; null when each
// rank keeps to its share, or when there are not enough CPUs for everybody.
const RankRecord* widest_unbound(const MachineRecord& machine, const HostRecord& host) {
  const RankRecord* widest = nullptr;
  int threads = 0;
  for (const RankRecord& rank : machine.ranks) {
    if (rank.host != host.host) continue;
    threads += rank.threads;
    if (widest == nullptr || rank.cpus.size() > widest->cpus.size()) widest = &rank;
  }
  if (widest == nullptr || threads > host.usable_cpus) return nullptr;
  const int share = host.usable_cpus / host.ranks;
  return static_cast<int>(widest->cpus.size()) > share ? widest : nullptr;
}

// A rank that may run everywhere, or on several NUMA nodes, leaves its caches and its memory behind
// when it is moved; one that shares a node's cores with others only its caches.
void judge_binding(const MachineRecord& machine, std::vector<Verdict>& verdicts) {
  for (const HostRecord& host : machine.hosts) {
    const RankRecord* const rank = widest_unbound(machine, host);
    if (rank == nullptr) continue;
    const bool everywhere = static_cast<int>(rank->cpus.size()) >= host.usable_cpus;
    const bool severe = everywhere || rank->numa_nodes.size() > 1;
    verdicts.push_back(
        {"unbound", severe ? "warning" : "info", "certain",
         "rank " + std::to_string(rank - machine.ranks.data()) + " may run on CPUs " +
             format_cpu_list(rank->cpus) + " of host " + host.host + ", where " +
             std::to_string(host.ranks) + " ranks share " + std::to_string(host.usable_cpus) +
             " CPUs",
         "at most usable CPUs / ranks = " + std::to_string(host.usable_cpus / host.ranks) +
             " CPUs a rank, where ranks x threads <= CPUs",
         "the kernel moves ranks between CPUs: caches are lost, and two ranks meet on one CPU "
         "while "
         "another is free",
         "bind the ranks: mpirun --bind-to core (or --map-by slot:PE=" +
             std::to_string(host.usable_cpus / host.ranks) + "), srun --cpu-bind=cores"});
  }
}

void judge_cross_memory(const MachineRecord& machine, std::vector<Verdict>& verdicts) {
  const auto denied =
      std::find_if(machine.ranks.begin(), machine.ranks.end(),
                   [](const RankRecord& rank) { return rank.cross_memory.starts_with("refused"); });
  if (denied == machine.ranks.end()) return;
  const auto refused = std::count_if(
      machine.ranks.begin(), machine.ranks.end(),
      [](const RankRecord& rank) { return rank.cross_memory.starts_with("refused"); });
  const bool switched_off = value_of(denied->environment, "NQD_CROSS_MEMORY") == "off";
  verdicts.push_back(
      {"cma-denied", "warning", "certain",
       "process_vm_readv between ranks of host " + denied->host + " is " + denied->cross_memory +
           " (rank " + std::to_string(denied - machine.ranks.begin()) + "; " +
           std::to_string(refused) + " of " + std::to_string(machine.ranks.size()) + " ranks)" +
           (switched_off ? ", by NQD_CROSS_MEMORY=off" : ""),
       "a rank can read the memory of the other ranks of its host",
       switched_off ? "the environment forbids single copies between private buffers"
                    : "a container's seccomp filter or missing CAP_SYS_PTRACE, or Yama: private "
                      "buffers are copied twice",
       switched_off ? "unset NQD_CROSS_MEMORY"
                    : "allow it (docker run --cap-add=SYS_PTRACE; sysctl "
                      "kernel.yama.ptrace_scope=0), or use registered buffers (-R)"});
}

}  // namespace

void judge_placement(const Findings& findings, std::vector<Verdict>& verdicts) {
  judge_shares(findings.machine, verdicts);
  if (!findings.ranks_are_processes) return;
  judge_binding(findings.machine, verdicts);
  judge_cross_memory(findings.machine, verdicts);
}

Verdict singletons_verdict(int launched, const std::string& evidence) {
  return {
      "singletons",
      "error",
      "certain",
      evidence,
      "ranks that MPI sees = ranks that the launcher started (" + std::to_string(launched) + ")",
      "the launcher belongs to another MPI library than nqd was built with, or no launcher was "
      "used: every process is a world of one",
      "start it with the mpirun of the library that `nqd doctor` names, or with --ranks N "
      "without a launcher"};
}

}  // namespace nqd::collectives

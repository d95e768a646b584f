// Ranks that began to join a communicator and did not end.
#include <map>
#include <set>
#include <string>

#include "collectives/nccl/log_parts.h"

namespace nqd::collectives {
namespace {

// The ranks of one job-wide communicator. Its processes log addresses of their own, so size and
// order of appearance within a process tell communicators apart.
struct Joining {
  int ranks = 0;
  std::set<int> started, completed;  // completed, or it may be
  std::map<int, std::string> where;
};

std::string rank_list(const std::set<int>& ranks, const std::map<int, std::string>& where) {
  constexpr std::size_t kMost = 16;
  std::string text;
  std::size_t shown = 0;
  for (const int rank : ranks) {
    if (shown++ == kMost) return text + ", … (" + std::to_string(ranks.size()) + " in all)";
    text += (text.empty() ? "" : ", ") + std::to_string(rank);
    const auto place = where.find(rank);
    if (place != where.end()) text += " (" + place->second + ")";
  }
  return text;
}

std::map<std::pair<int, std::size_t>, Joining> joinings(const NcclLog& log) {
  std::map<std::pair<int, std::size_t>, Joining> all;
  for (const NcclProcess& process : log.processes) {
    // A process of several GPUs has several ranks of one communicator.
    std::map<std::pair<int, int>, std::size_t> seen;
    for (const NcclComm& comm : process.comms) {
      if (comm.ranks < 2 || comm.rank < 0) continue;
      const std::size_t order = seen[{comm.ranks, comm.rank}]++;
      Joining& joining = all[{comm.ranks, order}];
      joining.ranks = comm.ranks;
      if (comm.started) joining.started.insert(comm.rank);
      if (comm.completed || comm.unclear) joining.completed.insert(comm.rank);
      joining.where[comm.rank] = process.host + ":" + std::to_string(process.pid);
    }
  }
  return all;
}

}  // namespace

void judge_init(const NcclLog& log, std::vector<Verdict>& verdicts) {
  for (const auto& [key, joining] : joinings(log)) {
    std::set<int> waiting;
    for (const int rank : joining.started) {
      if (!joining.completed.contains(rank)) waiting.insert(rank);
    }
    if (waiting.empty()) continue;
    std::set<int> absent;
    for (int rank = 0; rank < joining.ranks && absent.size() <= 64; ++rank) {
      if (!joining.started.contains(rank) && !joining.completed.contains(rank)) absent.insert(rank);
    }
    const bool some_done = !joining.completed.empty();
    Verdict verdict{"init-hang",
                    "error",
                    some_done || !absent.empty() ? "likely" : "suspected",
                    "Init START without Init COMPLETE: ranks " + rank_list(waiting, joining.where) +
                        " of " + std::to_string(joining.ranks),
                    "Init COMPLETE of every rank",
                    "these ranks wait in ncclCommInitRank for a peer or a connection",
                    "take the stacks of these processes (py-spy dump, gdb -p), and see that their "
                    "hosts reach each other on the bootstrap interface (firewall, "
                    "NCCL_SOCKET_IFNAME)"};
    if (!absent.empty() && !joining.started.empty()) {
      verdict.evidence += "; no line of ranks " + rank_list(absent, {});
      verdict.cause =
          "ranks that never began to join keep the others waiting, unless their log is "
          "missing here";
      verdict.next_step =
          "look at the ranks without a line first: did they start, and with the "
          "same number of ranks? Log every rank with NCCL_DEBUG_FILE=nccl.%h.%p";
    } else if (!some_done) {
      verdict.cause += ", or the log ends early";
    }
    verdicts.push_back(std::move(verdict));
  }
}

}  // namespace nqd::collectives

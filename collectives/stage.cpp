#include "collectives/stage.h"

#include <algorithm>
#include <cstdio>

#include "collectives/communicator.h"

namespace nqd::collectives {
namespace {

std::string seconds(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", value);
  return text;
}

bool reached(const PeerStatus& peer, const Stage& mine) {
  if (!peer.stage_known) return true;
  return peer.stage.group == mine.group && peer.stage.sequence >= mine.sequence &&
         (peer.stage.collective == Collective::kSendRecv) ==
             (mine.collective == Collective::kSendRecv);
}

bool stands_still(const PeerStatus& peer) {
  if (peer.stage_known) return peer.silent_s > kSilentAfter_s;
  return std::max(peer.silent_s, peer.host_silent_s.value_or(0)) > kHostSilentAfter_s;
}

// 0 stands still, 1 has not arrived, 2 a direct peer, 3 not at fault as far as is known.
int suspicion(const PeerStatus& peer, const Stage& mine, const std::vector<int>& pending) {
  if (stands_still(peer)) return 0;
  const bool direct = std::find(pending.begin(), pending.end(), peer.world_rank) != pending.end();
  // Calls of the whole group need every rank; a send or receive needs its one peer.
  if (mine.collective != Collective::kSendRecv && !reached(peer, mine)) return 1;
  return direct ? 2 : 3;
}

// Two ranks of a host that falls silent were last heard up to a sign of life apart.
bool is_alone_silent(const PeerStatus& peer) {
  return stands_still(peer) && peer.silent_s - *peer.host_silent_s > kSignsApart_s;
}

std::string describe(const PeerStatus& peer) {
  std::string text = "rank " + std::to_string(peer.world_rank) + " on host " + peer.host + ": ";
  if (!peer.stage_known) {
    text += "no answer";
    if (!peer.host_silent_s) return text;
    if (stands_still(peer) && !is_alone_silent(peer)) {
      return text + ", and its host has not been heard for " + seconds(*peer.host_silent_s);
    }
    if (is_alone_silent(peer)) text += ", no sign of life for " + seconds(peer.silent_s);
    return text + ", though its host is heard";
  }
  if (stands_still(peer)) text += "no heartbeat for " + seconds(peer.silent_s) + ", ";
  if (peer.ended) return text + "its part of the run has ended";
  return text + (peer.stage.active ? "in " : "last stage ") + describe(peer.stage);
}

}  // namespace

std::string describe(const Stage& stage) {
  if (stage.group.empty()) return "no collective yet";
  std::string text = std::string(name(stage.collective)) + " #" + std::to_string(stage.sequence) +
                     " of group " + stage.group;
  if (stage.step > 0) text += ", step " + std::to_string(stage.step);
  return text;
}

bool knows_culprit(const Stage& mine, const std::vector<PeerStatus>& group) {
  return std::any_of(group.begin(), group.end(),
                     [&](const PeerStatus& peer) { return suspicion(peer, mine, {}) < 2; });
}

void Fault::raise() const {
  if (kind == Kind::kTimeout) throw TimeoutError(ranks, host, message);
  throw PeerLostError(ranks.empty() ? -1 : ranks.front(), host, message, kind == Kind::kPeerFailed);
}

Fault timeout_fault(const Stage& mine, double waited_s, std::vector<PeerStatus> group,
                    const std::vector<int>& pending) {
  std::erase_if(group, [&](const PeerStatus& peer) { return suspicion(peer, mine, pending) == 3; });
  std::stable_sort(group.begin(), group.end(), [&](const PeerStatus& a, const PeerStatus& b) {
    return suspicion(a, mine, pending) < suspicion(b, mine, pending);
  });
  Fault fault;
  fault.kind = Fault::Kind::kTimeout;
  // The one group-wide exchange outside a call is that of split.
  fault.message = (mine.active ? "" : "split after ") + describe(mine) + " waited " +
                  seconds(waited_s) + " for";
  for (const PeerStatus& peer : group) {
    fault.message += (fault.ranks.empty() ? " " : "; ") + describe(peer);
    fault.ranks.push_back(peer.world_rank);
  }
  if (!group.empty()) fault.host = group.front().host;
  return fault;
}

}  // namespace nqd::collectives

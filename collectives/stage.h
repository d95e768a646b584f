// Where a rank is in its communication, and what is known about a failure of the world.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collectives/types.h"

namespace nqd::collectives {

// The call that a rank is in, or was in last.
struct Stage {
  std::string group;  // empty: no call yet
  Collective collective = Collective::kBarrier;
  std::uint64_t sequence = 0;  // 1-based within the group
  std::uint32_t step = 0;      // waits completed in this call
  bool active = false;         // false: the call has returned
};

// "all_reduce #41 of group dp, step 3", or "no collective yet".
std::string describe(const Stage& stage);

// What one rank knows of another when a wait passes its deadline.
struct PeerStatus {
  int world_rank = 0;
  std::string host;
  Stage stage;
  bool stage_known = true;  // false: a rank of another host
  double silent_s = 0;      // since its last sign of life; 0 where it never gave one
  bool ended = false;       // its body has returned
  // Of another host: since any rank of that was heard; none where none ever was.
  std::optional<double> host_silent_s{};
};

// A heartbeat older than this stands still: several missed ticks, and far below any deadline.
inline constexpr double kSilentAfter_s = 1.0;
// Likewise for what ranks say to other hosts once a second.
inline constexpr double kHostSilentAfter_s = 2.5;
// At most between what two ranks of a host said last, one second apart and some late.
inline constexpr double kSignsApart_s = 1.5;

// A failure of the world as every survivor reports it.
struct Fault {
  // kPeerFailed: the rank itself reported its error, and its process lives on for a moment.
  enum class Kind : std::uint32_t { kPeerLost, kPeerFailed, kTimeout };
  Kind kind = Kind::kPeerLost;
  std::vector<int> ranks;  // world ranks at fault, most suspect first
  std::string host;        // of ranks.front()
  std::string message;

  // Throws TimeoutError for kTimeout, else PeerLostError.
  [[noreturn]] void raise() const;
};

// For so long after a kPeerFailed fault a wait goes on: a rank that throws after a collective in
// which all ranks agreed to stop must not turn that agreement into a lost peer for those that are
// still receiving it.
inline constexpr std::chrono::milliseconds kSettle{100};

// Whether one of `group` stands still or has not reached the call `mine`, as far as is known.
bool knows_culprit(const Stage& mine, const std::vector<PeerStatus>& group);

// The fault of a wait of `waited_s` in `mine` whose direct peers (world ranks) were `pending`.
// `group` is every other rank of the group. Ranks whose heartbeat stands still come first, then
// those that have not reached the call, then the direct peers.
Fault timeout_fault(const Stage& mine, double waited_s, std::vector<PeerStatus> group,
                    const std::vector<int>& pending);

}  // namespace nqd::collectives

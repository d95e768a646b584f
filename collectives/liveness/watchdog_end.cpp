// How a rank's work ends, and what its peers hear of that.
#include "collectives/liveness/watchdog.h"

namespace nqd::collectives {

void Watchdog::guard(const std::function<void()>& body) {
  try {
    body();
  } catch (const std::exception& error) {
    fail_own(error.what());
    throw;
  } catch (...) {
    fail_own("an exception without a message");
    throw;
  }
}

void Watchdog::fail_own(const std::string& message) {
  const int rank = own_world_rank();
  fail({Fault::Kind::kPeerFailed,
        {rank},
        host(rank),
        "rank " + std::to_string(rank) + " (host " + host(rank) + ") failed: " + message});
  acknowledge();
}

bool Watchdog::all_ended() const {
  for (std::uint32_t slot = 0; slot < board_->slots(); ++slot) {
    const RankState state = board_->state(slot);
    if (state != RankState::kBodyEnded && state != RankState::kFinished) return false;
  }
  return true;
}

}  // namespace nqd::collectives

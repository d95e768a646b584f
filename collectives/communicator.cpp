#include "collectives/communicator.h"

#include <utility>

namespace nqd::collectives {

PeerLostError::PeerLostError(int lost_rank, std::string host, const std::string& message,
                             bool failed)
    : Error(
          ExitCode::kFault, "NQD4001", message,
          "look at that rank's own output and at its host's kernel log (out of memory, hardware); "
          "then start the job again from its last checkpoint"),
      lost_rank_(lost_rank),
      host_(std::move(host)),
      failed_(failed) {}

TimeoutError::TimeoutError(std::vector<int> waiting_for, std::string host,
                           const std::string& message)
    : Error(
          ExitCode::kFault, "NQD4002", message,
          "a rank without heartbeat is stopped or its host hangs; one that is merely late needs a "
          "longer deadline"),
      waiting_for_(std::move(waiting_for)),
      host_(std::move(host)) {}

int ranks_on_this_host(const Communicator& communicator) {
  const std::string& own = communicator.host(communicator.rank());
  int here = 0;
  for (int rank = 0; rank < communicator.size(); ++rank) {
    here += communicator.host(rank) == own ? 1 : 0;
  }
  return here;
}

}  // namespace nqd::collectives

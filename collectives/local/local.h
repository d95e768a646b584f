// The local backend: ranks are threads of this process.
#pragma once

#include <functional>

#include "collectives/communicator.h"
#include "collectives/world.h"

namespace nqd::collectives::local {

// Runs `body` on `ranks` threads and returns when all have ended. A rank whose body throws fails
// the world: waits of the others throw PeerLostError that names it. So does a rank whose body
// returned while another waits for it. Rethrows the root cause.
void run(int ranks, const WorldOptions& options, const std::function<void(Communicator&)>& body);

}  // namespace nqd::collectives::local

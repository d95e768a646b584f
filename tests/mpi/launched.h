// main() of the programs that mpirun starts to run cases.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "collectives/world.h"

namespace nqd::collectives {

// Runs `body` on the world of the launcher and returns the exit code: 0 when no rank of this
// process returned failures, which are logged. Ends the process when there are any, or an error.
// The world must have `ranks` ranks, so that N worlds of one rank cannot pass for one of N, and the
// backend that was asked for; "file:PATH" is shm of ranks that meet there.
int run_launched(int ranks, const std::string& backend,
                 const std::function<std::vector<std::string>(Communicator&)>& body);

}  // namespace nqd::collectives

// The MPI and shm backends: ranks are the processes that an MPI launcher started. This header is
// the same with and without MPI; no_mpi.cpp stands in for a build without it.
#pragma once

#include <functional>
#include <string>

#include "collectives/communicator.h"
#include "collectives/world.h"

namespace nqd::collectives::mpi {

bool is_available();
// The library's version string, or why there is none.
std::string detail();

// Initialises MPI, runs `body` once on the calling thread, finalizes MPI. At most once a process.
// Throws Error (kEnvironment): NQD3001 when MPI's world is not the launcher's, NQD3002 when the
// library lacks MPI_THREAD_MULTIPLE, NQD3003 in a build without MPI.
//
// A failure of the body is shown to the peers and rethrown without finalizing: end the process with
// abort_process() then.
void run(const WorldOptions& options, const LaunchIdentity& identity,
         const std::function<void(Communicator&)>& body);

}  // namespace nqd::collectives::mpi

// A world of processes of one host without MPI: any launcher that gives each its rank will do.
#pragma once

#include <functional>

#include "collectives/communicator.h"
#include "collectives/world.h"

namespace nqd::collectives::shm {

// Collective over the processes of `identity`, which meet by the file that options.rendezvous names
// (collectives/file_meeting.h). Runs `body` once on the calling thread, on the shm backend, and
// returns when the body of every rank has returned. At most once a process.
//
// Throws Error: (kUsage, NQD3007) for a rendezvous that is not file:PATH, or a PATH that is a
// folder or a user's file; (kEnvironment, NQD3007) on all ranks when they are on several hosts, do
// not share memory, or are perhaps of two jobs, and at once on the second process that comes as one
// rank; (kUsage, NQD2002) for a folder that cannot be written; (kFault, NQD4002) that names the
// ranks that did not come; what options.check_stop throws. A failure of the body is shown to the
// peers and rethrown: end the process with abort_process() then.
void run_by_files(const WorldOptions& options, const LaunchIdentity& identity,
                  const std::function<void(Communicator&)>& body);

}  // namespace nqd::collectives::shm

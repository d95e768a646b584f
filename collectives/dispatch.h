// Which function runs which algorithm of which collective, over any transport.
#pragma once

#include "collectives/communicator.h"
#include "collectives/scratch.h"
#include "collectives/transport.h"

namespace nqd::collectives {

// Collective. Opens the call on the transport, runs `algorithm` (which is not kAuto, but for
// barrier) and closes it. The spans are those of the Communicator's function of that name;
// broadcast works in `out`. Throws NQD2102 where the algorithm cannot run here.
void run_collective(Transport& transport, Scratch& scratch, const CollectiveCall& call,
                    Algorithm algorithm);

}  // namespace nqd::collectives

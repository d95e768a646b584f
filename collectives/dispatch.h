// Which function runs which algorithm of which collective, over any transport.
#pragma once

#include <cstdint>
#include <optional>

#include "collectives/communicator.h"
#include "collectives/scratch.h"
#include "collectives/transport.h"

namespace nqd::collectives {

// Bytes of the full vector, as cost.h counts them. Nothing for gather and scatter, where a rank
// knows its own part alone, and where parts are counted, which differ.
std::optional<std::uint64_t> payload_bytes(const CollectiveCall& call);

// Collective. Opens the call on the transport, compares it with the other ranks' when `check`
// (call_check.h), runs `algorithm` (which is not kAuto, but for barrier) and closes it. The spans
// are those of the Communicator's function of that name; broadcast works in `out`. Throws NQD2102
// where the algorithm cannot run here.
void run_collective(Transport& transport, Scratch& scratch, const CollectiveCall& call,
                    Algorithm algorithm, bool check = false);

}  // namespace nqd::collectives

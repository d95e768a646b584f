// Failing together: what can go wrong on one rank before a run starts must stop all of them, with
// one message and one exit code.
#pragma once

#include <functional>

#include "collectives/communicator.h"

namespace nqd::engine {

// Collective. Runs `attempt` on this rank, then compares notes. When it threw an Error anywhere,
// every rank throws the error of the lowest failing rank, quiet on all ranks but that one (see
// Error::quiet); exceptions of other types propagate unchanged on the rank that threw.
void attempt_together(collectives::Communicator& world, const std::function<void()>& attempt);

}  // namespace nqd::engine

// Whether all ranks of a group make the same call (--check-calls): what messages alone show late,
// as a wait that times out, or not at all, as a sum with another operator.
#pragma once

#include "collectives/dispatch.h"
#include "collectives/transport.h"

namespace nqd::collectives {

// Collective, over the control exchange; inside the call that the transport has begun. Throws Error
// (kFault, NQD4005) on every rank, with the same words, when collective, sequence number, bytes,
// element type, operator, root or algorithm differ: it names a rank that differs from most, its
// host, and both calls. gather and scatter have a full vector at the root alone: the parts must be
// those of it.
void check_same_call(Transport& transport, const CollectiveCall& call, Algorithm algorithm);
// The same for a split, which no call has begun.
void check_same_split(Transport& transport);

}  // namespace nqd::collectives

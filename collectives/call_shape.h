// What a call must hold, whatever runs it.
#pragma once

#include <string>

#include "collectives/communicator.h"

namespace nqd::collectives {

// Throws Error (kUsage, NQD2103) for buffers, counts or a root that do not fit the collective (see
// Communicator), as rank `rank` of the `size` ranks of `group` gives them; NQD2102 for kSendRecv.
void check_call(const CollectiveCall& call, int size, int rank, const std::string& group);

// Throws Error (kUsage, NQD2103) for a rank that the group does not have.
void check_rank(int rank, int size, const std::string& group);

}  // namespace nqd::collectives

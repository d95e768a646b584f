// One segment for all ranks of a group.
#pragma once

#include <cstddef>
#include <memory>

#include "collectives/shared/segment.h"
#include "collectives/transport.h"

namespace nqd::collectives {

// Collective, over the group's control exchange. A zero-filled segment of `bytes` bytes that every
// rank has mapped and nobody else can reach any more; null, on all ranks, when they are not on one
// host or some rank cannot map it.
std::shared_ptr<Segment> share_segment(Transport& group, std::size_t bytes);

}  // namespace nqd::collectives

// Collectives as calls of NCCL.
#pragma once

#include <cstddef>
#include <span>

#include "collectives/cost.h"
#include "collectives/nccl/session.h"

namespace nqd::collectives {

// Puts `call`, whose spans are device memory, on `stream`. Where ranks do not divide the vector,
// all_gather and reduce_scatter are a group of broadcasts and reductions, one a part; gather,
// scatter and all_to_all are groups of messages. Does not wait for NCCL (settle) nor the device.
void put_call(NcclSession& session, const CollectiveCall& call, DeviceStream stream,
              const Stage& stage);

// One message each way, both at once; −1 is nobody.
void put_exchange(NcclSession& session, std::span<const std::byte> data, int to,
                  std::span<std::byte> received, int from, DeviceStream stream, const Stage& stage);

// What one rank sends in `call` by `algorithm`, for auto and library the one that cost.h names for
// auto, any rank being the root: what plans count. NCCL chooses its own algorithm, and what that
// sends cannot be seen. A barrier counts nothing; counted parts count as the messages that NCCL is
// asked for.
RankTraffic planned_traffic(const CollectiveCall& call, std::size_t ranks, std::size_t rank,
                            Algorithm algorithm);

}  // namespace nqd::collectives

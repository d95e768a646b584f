// How the ranks of a world find each other for NCCL: over a backend that is up already, or by files
// in a folder that all of them see.
#pragma once

#include <memory>

#include "collectives/file_meeting.h"
#include "collectives/nccl/communicator.h"

namespace nqd::collectives {

// Collective over `host`, whose ranks are threads or processes. NCCL's group "world" of the same
// ranks, each on a device of its own: options.device, or its place among the ranks of its host
// modulo the devices that it sees. `host` is asked for a group of its own, by which losses are
// noticed and late ranks named; it must outlive the result.
//
// Before NCCL starts the ranks compare what they have. On all of them throws Error (kEnvironment):
// NQD3060 or NQD3064 when one has no device or another NCCL than rank 0, NQD3063 when ranks share a
// device and NCCL does not take that (before 2.30, or without NCCL_MULTI_RANK_GPU_ENABLE=1).
std::unique_ptr<NcclCommunicator> open_nccl(Communicator& host, DeviceApi& device, NcclApi& nccl,
                                            const NcclOptions& options);

// Collective over the ranks of `meeting`. As above, without a backend that names lost ranks.
std::unique_ptr<NcclCommunicator> open_nccl(const FileMeeting& meeting, DeviceApi& device,
                                            NcclApi& nccl, const NcclOptions& options);

}  // namespace nqd::collectives

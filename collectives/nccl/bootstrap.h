// How the ranks of a world find each other for NCCL: over a backend that is up already, or by files
// in a folder that all of them see.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

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

// The launcher's word for a world that meets by files.
struct FileMeeting {
  std::filesystem::path path;  // in a folder that all ranks see; PATH.RANK are used too
  std::string run;             // equal on all ranks; another for each meeting of one job
  int rank = 0;
  int ranks = 1;
  std::string host;    // of this rank
  int local_rank = 0;  // its place on its host
  std::chrono::milliseconds deadline{60'000};
};

// Collective. Every rank's `mine` (equal lengths), one behind the other in rank order. Each rank
// leaves its part beside a random number in PATH.RANK; rank 0 answers in PATH with all parts and
// all numbers. An answer that does not hold the rank's own number is of an earlier run and not
// taken, so nothing has to be cleaned up before; what was used is removed. Throws TimeoutError that
// names the ranks that did not come, and as write_file for a folder that cannot be written.
std::vector<std::byte> meet_by_files(const FileMeeting& meeting, std::span<const std::byte> mine);

// Collective over the ranks of `meeting`. As above, without a backend that names lost ranks.
std::unique_ptr<NcclCommunicator> open_nccl(const FileMeeting& meeting, DeviceApi& device,
                                            NcclApi& nccl, const NcclOptions& options);

}  // namespace nqd::collectives

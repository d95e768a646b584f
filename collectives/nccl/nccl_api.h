// The calls of NCCL that nqd makes, and no more (NVIDIA/nccl, src/nccl.h.in): the backend is
// written over it, so that a test can put threads and host memory in its place. Nothing here
// throws; what a call says is its result, with NCCL's numbers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/dtype.h"
#include "collectives/device/device_api.h"
#include "collectives/types.h"

struct ncclComm;

namespace nqd::collectives {

using NcclHandle = ncclComm*;  // ncclComm_t

enum class NcclResult : int {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,  // of a non-blocking communicator: ask async_error until it is something else
};

struct NcclUniqueId {
  std::array<std::byte, 128> bytes{};
};

struct NcclCommOptions {
  bool blocking = false;
  std::string name;    // in NCCL's own log; must stay as long as the communicator
  int max_blocks = 0;  // thread blocks of a call (maxCTAs); 0: NCCL's choice
};

class NcclApi {
 public:
  virtual ~NcclApi() = default;

  virtual int version() = 0;  // NCCL_VERSION_CODE of the library loaded: 22809
  virtual std::string text(NcclResult result) = 0;
  // What NCCL warned of last; empty when it says nothing. `comm` may be null.
  virtual std::string last_error(NcclHandle comm) = 0;

  virtual NcclResult unique_id(NcclUniqueId& id) = 0;
  virtual NcclResult init(NcclHandle& comm, int ranks, const NcclUniqueId& id, int rank,
                          const NcclCommOptions& options) = 0;
  // color < 0 takes part and gets null.
  virtual NcclResult split(NcclHandle comm, int color, int key, NcclHandle& part,
                           const NcclCommOptions& options) = 0;
  virtual NcclResult async_error(NcclHandle comm, NcclResult& state) = 0;
  virtual NcclResult finalize(NcclHandle comm) = 0;
  virtual NcclResult destroy(NcclHandle comm) = 0;
  // ncclCommAbort.
  virtual NcclResult end_now(NcclHandle comm) = 0;

  // Memory that NCCL can register, and the registration (handle).
  virtual NcclResult allocate(std::byte*& memory, std::size_t bytes) = 0;
  virtual NcclResult release(std::byte* memory) = 0;
  virtual NcclResult register_buffer(NcclHandle comm, std::byte* memory, std::size_t bytes,
                                     void*& handle) = 0;
  virtual NcclResult deregister_buffer(NcclHandle comm, void* handle) = 0;

  // Counts are elements; of all_gather and reduce_scatter those of one rank.
  virtual NcclResult all_reduce(const std::byte* in, std::byte* out, std::size_t count, DType type,
                                ReduceOp op, NcclHandle comm, DeviceStream stream) = 0;
  virtual NcclResult all_gather(const std::byte* in, std::byte* out, std::size_t count, DType type,
                                NcclHandle comm, DeviceStream stream) = 0;
  virtual NcclResult reduce_scatter(const std::byte* in, std::byte* out, std::size_t count,
                                    DType type, ReduceOp op, NcclHandle comm,
                                    DeviceStream stream) = 0;
  virtual NcclResult reduce(const std::byte* in, std::byte* out, std::size_t count, DType type,
                            ReduceOp op, int root, NcclHandle comm, DeviceStream stream) = 0;
  virtual NcclResult broadcast(const std::byte* in, std::byte* out, std::size_t count, DType type,
                               int root, NcclHandle comm, DeviceStream stream) = 0;
  virtual NcclResult send(const std::byte* in, std::size_t count, DType type, int peer,
                          NcclHandle comm, DeviceStream stream) = 0;
  virtual NcclResult receive(std::byte* out, std::size_t count, DType type, int peer,
                             NcclHandle comm, DeviceStream stream) = 0;
  virtual NcclResult group_start() = 0;
  virtual NcclResult group_end() = 0;
  // In the place of group_end: nothing runs, and `seconds` is NCCL's estimate of it, negative where
  // it has none. Of blocking communicators alone.
  virtual NcclResult group_simulate(double& seconds) = 0;
};

// NCCL of this build. Throws Error (kEnvironment, NQD3064) that says why there is none.
NcclApi& nccl_api();

// "2.28.9" for 22809.
std::string nccl_version_text(int version);

}  // namespace nqd::collectives

// NCCL behind NcclApi.
#include "collectives/nccl/nccl_api.h"

#include <nccl.h>

#include <cstring>

#include "base/error.h"
#include "collectives/nccl/nccl_library.h"

namespace nqd::collectives {
namespace {

static_assert(static_cast<int>(NcclResult::kRemoteError) == ncclRemoteError);
static_assert(static_cast<int>(NcclResult::kInProgress) == ncclInProgress);
static_assert(sizeof(NcclUniqueId) == sizeof(ncclUniqueId));

NcclResult said(ncclResult_t result) { return static_cast<NcclResult>(result); }

ncclDataType_t nccl_type(DType type) {
  switch (type) {
    case DType::kFloat64:
      return ncclFloat64;
    case DType::kBFloat16:
      return ncclBfloat16;
    case DType::kFloat16:
      return ncclFloat16;
    case DType::kInt32:
      return ncclInt32;
    case DType::kInt64:
      return ncclInt64;
    case DType::kUInt8:
      return ncclUint8;
    default:
      return ncclFloat32;
  }
}

ncclRedOp_t nccl_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return ncclSum;
    case ReduceOp::kAvg:
      return ncclAvg;
    case ReduceOp::kMin:
      return ncclMin;
    case ReduceOp::kMax:
      return ncclMax;
    case ReduceOp::kProd:
      return ncclProd;
  }
  return ncclSum;
}

// NCCL keeps the pointer to the name, for profilers: the caller keeps the options.
ncclConfig_t config_of(const NcclCommOptions& options) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = options.blocking ? 1 : 0;
  config.commName = options.name.c_str();
  if (options.max_blocks > 0) config.maxCTAs = options.max_blocks;
  return config;
}

class LinkedNccl final : public NcclApi {
 public:
  int version() override {
    int version = 0;
    ncclGetVersion(&version);
    return version;
  }
  std::string text(NcclResult result) override {
    return ncclGetErrorString(static_cast<ncclResult_t>(result));
  }
  std::string last_error(NcclHandle comm) override {
    const char* const text = ncclGetLastError(comm);
    return text != nullptr ? text : "";
  }

  NcclResult unique_id(NcclUniqueId& id) override {
    ncclUniqueId made{};
    const ncclResult_t result = ncclGetUniqueId(&made);
    std::memcpy(id.bytes.data(), &made, sizeof made);
    return said(result);
  }
  NcclResult init(NcclHandle& comm, int ranks, const NcclUniqueId& id, int rank,
                  const NcclCommOptions& options) override {
    ncclUniqueId given{};
    std::memcpy(&given, id.bytes.data(), sizeof given);
    ncclConfig_t config = config_of(options);
    return said(ncclCommInitRankConfig(&comm, ranks, given, rank, &config));
  }
  NcclResult split(NcclHandle comm, int color, int key, NcclHandle& part,
                   const NcclCommOptions& options) override {
    ncclConfig_t config = config_of(options);
    return said(ncclCommSplit(comm, color < 0 ? NCCL_SPLIT_NOCOLOR : color, key, &part, &config));
  }
  NcclResult async_error(NcclHandle comm, NcclResult& state) override {
    ncclResult_t found = ncclSuccess;
    const ncclResult_t result = ncclCommGetAsyncError(comm, &found);
    state = said(found);
    return said(result);
  }
  NcclResult finalize(NcclHandle comm) override { return said(ncclCommFinalize(comm)); }
  NcclResult destroy(NcclHandle comm) override { return said(ncclCommDestroy(comm)); }
  NcclResult end_now(NcclHandle comm) override { return said(ncclCommAbort(comm)); }

  NcclResult allocate(std::byte*& memory, std::size_t bytes) override {
    void* made = nullptr;
    const ncclResult_t result = ncclMemAlloc(&made, bytes);
    memory = static_cast<std::byte*>(made);
    return said(result);
  }
  NcclResult release(std::byte* memory) override { return said(ncclMemFree(memory)); }
  NcclResult register_buffer(NcclHandle comm, std::byte* memory, std::size_t bytes,
                             void*& handle) override {
    return said(ncclCommRegister(comm, memory, bytes, &handle));
  }
  NcclResult deregister_buffer(NcclHandle comm, void* handle) override {
    return said(ncclCommDeregister(comm, handle));
  }

  NcclResult all_reduce(const std::byte* in, std::byte* out, std::size_t count, DType type,
                        ReduceOp op, NcclHandle comm, DeviceStream stream) override {
    return said(ncclAllReduce(in, out, count, nccl_type(type), nccl_op(op), comm, stream));
  }
  NcclResult all_gather(const std::byte* in, std::byte* out, std::size_t count, DType type,
                        NcclHandle comm, DeviceStream stream) override {
    return said(ncclAllGather(in, out, count, nccl_type(type), comm, stream));
  }
  NcclResult reduce_scatter(const std::byte* in, std::byte* out, std::size_t count, DType type,
                            ReduceOp op, NcclHandle comm, DeviceStream stream) override {
    return said(ncclReduceScatter(in, out, count, nccl_type(type), nccl_op(op), comm, stream));
  }
  NcclResult reduce(const std::byte* in, std::byte* out, std::size_t count, DType type, ReduceOp op,
                    int root, NcclHandle comm, DeviceStream stream) override {
    return said(ncclReduce(in, out, count, nccl_type(type), nccl_op(op), root, comm, stream));
  }
  NcclResult broadcast(const std::byte* in, std::byte* out, std::size_t count, DType type, int root,
                       NcclHandle comm, DeviceStream stream) override {
    return said(ncclBroadcast(in, out, count, nccl_type(type), root, comm, stream));
  }
  NcclResult send(const std::byte* in, std::size_t count, DType type, int peer, NcclHandle comm,
                  DeviceStream stream) override {
    return said(ncclSend(in, count, nccl_type(type), peer, comm, stream));
  }
  NcclResult receive(std::byte* out, std::size_t count, DType type, int peer, NcclHandle comm,
                     DeviceStream stream) override {
    return said(ncclRecv(out, count, nccl_type(type), peer, comm, stream));
  }
  NcclResult group_start() override { return said(ncclGroupStart()); }
  NcclResult group_end() override { return said(ncclGroupEnd()); }
  NcclResult group_simulate(double& seconds) override {
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    const ncclResult_t result = ncclGroupSimulateEnd(&info);
    // NCCL's cost table is in microseconds (src/graph/tuning.cc).
    seconds = static_cast<double>(info.estimatedTime) * 1e-6;
    return said(result);
  }
};

}  // namespace

NcclApi& nccl_api() {
  static const NcclLibrary library = nccl_library();
  if (!library.reason.empty()) {
    throw Error(ExitCode::kEnvironment, "NQD3064", "NCCL cannot be used: " + library.reason,
                "install NCCL (libnccl2), or name the folder of libnccl.so.2 in LD_LIBRARY_PATH; "
                "without it, --backend mpi, shm or local");
  }
  static LinkedNccl api;
  return api;
}

}  // namespace nqd::collectives

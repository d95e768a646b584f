// An NCCL whose ranks are threads and whose devices are host memory (emulated_device.h). Calls of
// non-blocking communicators reach their stream only after async_error has been asked, as they may
// with NCCL; ranks whose calls differ get ncclInvalidUsage; an abort gives the others
// ncclRemoteError.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "collectives/nccl/nccl_api.h"

namespace nqd::collectives::emulated {

struct Group;

class Nccl final : public NcclApi {
 public:
  int version() override { return version_; }
  std::string text(NcclResult result) override;
  std::string last_error(NcclHandle comm) override;
  NcclResult unique_id(NcclUniqueId& id) override;
  NcclResult init(NcclHandle& comm, int ranks, const NcclUniqueId& id, int rank,
                  const NcclCommOptions& options) override;
  NcclResult split(NcclHandle comm, int color, int key, NcclHandle& part,
                   const NcclCommOptions& options) override;
  NcclResult async_error(NcclHandle comm, NcclResult& state) override;
  NcclResult finalize(NcclHandle comm) override;
  NcclResult destroy(NcclHandle comm) override;
  NcclResult end_now(NcclHandle comm) override;
  NcclResult allocate(std::byte*& memory, std::size_t bytes) override;
  NcclResult release(std::byte* memory) override;
  NcclResult register_buffer(NcclHandle comm, std::byte* memory, std::size_t bytes,
                             void*& handle) override;
  NcclResult deregister_buffer(NcclHandle comm, void* handle) override;
  NcclResult all_reduce(const std::byte* in, std::byte* out, std::size_t count, DType type,
                        ReduceOp op, NcclHandle comm, DeviceStream stream) override;
  NcclResult all_gather(const std::byte* in, std::byte* out, std::size_t count, DType type,
                        NcclHandle comm, DeviceStream stream) override;
  NcclResult reduce_scatter(const std::byte* in, std::byte* out, std::size_t count, DType type,
                            ReduceOp op, NcclHandle comm, DeviceStream stream) override;
  NcclResult reduce(const std::byte* in, std::byte* out, std::size_t count, DType type, ReduceOp op,
                    int root, NcclHandle comm, DeviceStream stream) override;
  NcclResult broadcast(const std::byte* in, std::byte* out, std::size_t count, DType type, int root,
                       NcclHandle comm, DeviceStream stream) override;
  NcclResult send(const std::byte* in, std::size_t count, DType type, int peer, NcclHandle comm,
                  DeviceStream stream) override;
  NcclResult receive(std::byte* out, std::size_t count, DType type, int peer, NcclHandle comm,
                     DeviceStream stream) override;
  NcclResult group_start() override;
  NcclResult group_end() override;
  NcclResult group_simulate(double& seconds) override;

  void set_version(int version) { version_ = version; }
  // Memory of its own cannot be had: what NCCL says without cuMem support.
  void set_allocates(bool allocates) { allocates_ = allocates; }
  // From now on rank `rank` of the world finds `result` when it asks for errors.
  void fail(int rank, NcclResult result);
  // Communicators, memory and registrations that were made and not given back.
  int live() const { return live_; }
  int aborted() const { return aborted_; }

 private:
  std::mutex mutex_;
  std::vector<std::pair<NcclUniqueId, std::shared_ptr<Group>>> groups_;
  std::uint64_t next_id_ = 0;
  std::atomic<int> version_ = 22809;
  std::atomic<bool> allocates_ = true;
  std::atomic<int> live_ = 0;
  std::atomic<int> aborted_ = 0;
};

}  // namespace nqd::collectives::emulated

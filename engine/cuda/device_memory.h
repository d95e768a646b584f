// The memory of a device, and host memory that a device reads and writes itself.
#pragma once

#include "engine/cuda/pool.h"

namespace nqd::engine::cuda {

// Allocates on the device that is current where it is constructed.
class DeviceMemory : public MemorySource {
 public:
  DeviceMemory();
  std::byte* allocate(std::size_t bytes) override;
  void release(std::byte* block) override;
  std::size_t free_bytes() override;
  std::size_t total_bytes() override;

 private:
  int device_;
};

// Page-locked host memory, through which copies between host and device run beside kernels. Not
// initialised. Counted in `ledger` from construction to destruction (null: not counted): it is the
// host's, so give the ledger of the host. Move-only. Throws NQD4060.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  PinnedBuffer(MemoryLedger* ledger, MemoryTag tag, std::size_t bytes);
  ~PinnedBuffer();
  PinnedBuffer(PinnedBuffer&& other) noexcept;
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept;

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  void release();
  MemoryLedger* ledger_ = nullptr;
  MemoryTag tag_ = MemoryTag::kWorkspace;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace nqd::engine::cuda

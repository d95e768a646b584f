#include "engine/cuda/device_memory.h"

#include <cuda_runtime_api.h>

#include <utility>

#include "engine/cuda/error.h"
#include "engine/cuda/streams.h"

namespace nqd::engine::cuda {

DeviceMemory::DeviceMemory() : device_(current_device()) {}

std::byte* DeviceMemory::allocate(std::size_t bytes) {
  const OnDevice here(device_);
  void* block = nullptr;
  const cudaError_t error = cudaMalloc(&block, bytes);
  if (error == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());  // reported by the pool, with the plan
    return nullptr;
  }
  check(error, "cudaMalloc");
  return static_cast<std::byte*>(block);
}

void DeviceMemory::release(std::byte* block) {
  // Called by destructors too. What can fail here is an earlier call's sticky error, which has
  // been or will be reported by the next check.
  static_cast<void>(cudaFree(block));
}

std::size_t DeviceMemory::free_bytes() {
  const OnDevice here(device_);
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return free;
}

std::size_t DeviceMemory::total_bytes() {
  const OnDevice here(device_);
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return total;
}

PinnedBuffer::PinnedBuffer(MemoryLedger* ledger, MemoryTag tag, std::size_t bytes)
    : ledger_(ledger), tag_(tag), size_(bytes) {
  if (bytes == 0) return;
  void* data = nullptr;
  // Portable: of use to all devices of the process, whose ranks may be threads.
  check(cudaHostAlloc(&data, bytes, cudaHostAllocPortable), "cudaHostAlloc");
  data_ = static_cast<std::byte*>(data);
  if (ledger_ != nullptr) ledger_->add(tag_, size_);
}

PinnedBuffer::~PinnedBuffer() { release(); }

PinnedBuffer::PinnedBuffer(PinnedBuffer&& other) noexcept
    : ledger_(other.ledger_),
      tag_(other.tag_),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

PinnedBuffer& PinnedBuffer::operator=(PinnedBuffer&& other) noexcept {
  if (this == &other) return *this;
  release();
  ledger_ = other.ledger_;
  tag_ = other.tag_;
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  return *this;
}

void PinnedBuffer::release() {
  if (data_ == nullptr) return;
  static_cast<void>(cudaFreeHost(data_));
  if (ledger_ != nullptr) ledger_->remove(tag_, size_);
  data_ = nullptr;
}

}  // namespace nqd::engine::cuda

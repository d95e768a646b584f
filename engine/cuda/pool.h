// Device memory by tag, as base/ledger.h counts it on the CPU, with blocks kept for reuse.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "base/ledger.h"

namespace nqd::engine::cuda {

// Where a pool takes its blocks from: the device (device_memory.h), or a test's own.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  // A block aligned to 256 bytes or more; null when there is none of that size.
  virtual std::byte* allocate(std::size_t bytes) = 0;
  virtual void release(std::byte* block) = 0;
  // Returns when the device is done with blocks that were given back to the pool: asked before they
  // are released for want of memory, by sources whose release() does not wait itself.
  virtual void settle() {}
  // Bytes that are free, for the message of an allocation that failed.
  virtual std::size_t free_bytes() = 0;
  virtual std::size_t total_bytes() = 0;
};

class DeviceBuffer;

// Gives out blocks and keeps those that come back, since cudaFree waits for the whole device. A
// kept block serves a request of its size or somewhat less. Thread-safe.
//
// The ledger is told the bytes asked for, so that a plan's bytes can be compared to the byte; what
// rounding and kept blocks take beside them is reserved_bytes() − the ledger's total.
//
// A block that comes back may be given out at once. So work that uses it must be done, or be on the
// stream that uses it next.
class DevicePool {
 public:
  // `plan` says what was planned, for the message when memory runs out; may be empty. The source,
  // and the ledger where it is not null, must outlive the pool.
  DevicePool(MemorySource& source, MemoryLedger* ledger, std::function<std::string()> plan = {});
  // All buffers must be gone.
  ~DevicePool();
  DevicePool(const DevicePool&) = delete;
  DevicePool& operator=(const DevicePool&) = delete;

  // Not initialised; empty for 0 bytes. Throws NQD4062 when neither the device nor what the pool
  // keeps has that much, with the plan beside what is left.
  DeviceBuffer allocate(MemoryTag tag, std::size_t bytes);

  // Gives back to the source what no buffer uses.
  void trim();

  std::size_t reserved_bytes() const;       // taken from the source
  std::size_t peak_reserved_bytes() const;  // the most at a time

  // Bytes of the block that serves a request: whole 512 bytes below 1 MiB, whole 2 MiB from there.
  static std::size_t block_bytes(std::size_t bytes);

 private:
  friend class DeviceBuffer;
  struct Block {
    std::byte* data = nullptr;
    std::size_t bytes = 0;
  };
  Block take(std::size_t bytes);
  Block take_kept(std::size_t needed);
  void trim_locked();
  void give_back(MemoryTag tag, std::size_t bytes, const Block& block);
  [[noreturn]] void fail(MemoryTag tag, std::size_t bytes) const;

  MemorySource& source_;
  MemoryLedger* ledger_;
  std::function<std::string()> plan_;
  mutable std::mutex mutex_;
  std::multimap<std::size_t, std::byte*> kept_;
  std::size_t kept_bytes_ = 0;
  std::size_t reserved_ = 0;
  std::size_t peak_reserved_ = 0;
};

// A block of a pool, which must outlive it. Move-only; data() is an address of the device.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  ~DeviceBuffer() { release(); }
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;

  std::byte* data() { return block_.data; }
  const std::byte* data() const { return block_.data; }
  std::size_t size() const { return size_; }
  template <typename T>
  T* as() {
    return reinterpret_cast<T*>(block_.data);
  }
  template <typename T>
  const T* as() const {
    return reinterpret_cast<const T*>(block_.data);
  }

 private:
  friend class DevicePool;
  DeviceBuffer(DevicePool* pool, MemoryTag tag, std::size_t bytes, DevicePool::Block block)
      : pool_(pool), tag_(tag), size_(bytes), block_(block) {}
  void release();

  DevicePool* pool_ = nullptr;
  MemoryTag tag_ = MemoryTag::kWorkspace;
  std::size_t size_ = 0;
  DevicePool::Block block_;
};

}  // namespace nqd::engine::cuda

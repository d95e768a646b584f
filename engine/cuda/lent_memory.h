// Device memory that is somebody else's where they lend it: communicators know theirs beforehand.
#pragma once

#include <cstddef>
#include <functional>
#include <set>
#include <utility>

#include "engine/cuda/pool.h"

namespace nqd::engine::cuda {

// Blocks of `own`, which must outlive it, until somebody lends; then large ones are the lender's,
// as far as it has any.
class LentMemory final : public MemorySource {
 public:
  // Communicators' memory comes in whole granules of the driver's, which are of two megabytes:
  // DevicePool rounds blocks of so many bytes or more to that.
  static constexpr std::size_t kLeast = std::size_t{1} << 20;

  explicit LentMemory(MemorySource& own) : own_(own) {}

  // Both must work as long as it has blocks. `settle`: MemorySource's, since release() of lent
  // memory takes it from under what the device still does, which cudaFree waits for.
  void lend(std::function<std::byte*(std::size_t)> allocate,
            std::function<void(std::byte*)> release, std::function<void()> settle) {
    allocate_ = std::move(allocate);
    release_ = std::move(release);
    settle_ = std::move(settle);
  }

  std::byte* allocate(std::size_t bytes) override {
    if (allocate_ && bytes >= kLeast) {
      if (std::byte* const block = allocate_(bytes)) return *lent_.insert(block).first;
    }
    return own_.allocate(bytes);
  }
  void release(std::byte* block) override {
    lent_.erase(block) > 0 ? release_(block) : own_.release(block);
  }
  void settle() override {
    if (!lent_.empty()) settle_();
  }
  std::size_t free_bytes() override { return own_.free_bytes(); }
  std::size_t total_bytes() override { return own_.total_bytes(); }

 private:
  MemorySource& own_;
  std::function<std::byte*(std::size_t)> allocate_;
  std::function<void(std::byte*)> release_;
  std::function<void()> settle_;
  std::set<std::byte*> lent_;
};

}  // namespace nqd::engine::cuda

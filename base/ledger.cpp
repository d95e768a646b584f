#include "base/ledger.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

namespace nqd {

std::string_view name(MemoryTag tag) {
  switch (tag) {
    case MemoryTag::kWeights:
      return "weights";
    case MemoryTag::kGradients:
      return "gradients";
    case MemoryTag::kMaster:
      return "master";
    case MemoryTag::kMoments:
      return "moments";
    case MemoryTag::kEma:
      return "ema";
    case MemoryTag::kGatheredUnits:
      return "gathered_units";
    case MemoryTag::kActivations:
      return "activations";
    case MemoryTag::kActivationGradients:
      return "activation_gradients";
    case MemoryTag::kLogits:
      return "logits";
    case MemoryTag::kWorkspace:
      return "workspace";
    case MemoryTag::kCommunication:
      return "communication";
    case MemoryTag::kData:
      return "data";
    case MemoryTag::kCheckpoint:
      return "checkpoint";
    case MemoryTag::kAllocatorReserve:
      return "allocator_reserve";
    case MemoryTag::kDeviceContext:
      return "device_context";
    case MemoryTag::kCount:
      break;
  }
  return "?";
}

void MemoryLedger::add(MemoryTag tag, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto i = static_cast<std::size_t>(tag);
  current_[i] += bytes;
  peak_[i] = std::max(peak_[i], current_[i]);
  total_ += bytes;
  peak_total_ = std::max(peak_total_, total_);
}

void MemoryLedger::remove(MemoryTag tag, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  current_[static_cast<std::size_t>(tag)] -= bytes;
  total_ -= bytes;
}

std::uint64_t MemoryLedger::current_bytes(MemoryTag tag) const {
  const std::lock_guard lock(mutex_);
  return current_[static_cast<std::size_t>(tag)];
}

std::uint64_t MemoryLedger::peak_bytes(MemoryTag tag) const {
  const std::lock_guard lock(mutex_);
  return peak_[static_cast<std::size_t>(tag)];
}

std::uint64_t MemoryLedger::current_total_bytes() const {
  const std::lock_guard lock(mutex_);
  return total_;
}

std::uint64_t MemoryLedger::peak_total_bytes() const {
  const std::lock_guard lock(mutex_);
  return peak_total_;
}

Buffer::Buffer(MemoryLedger* ledger, MemoryTag tag, std::size_t bytes)
    : ledger_(ledger), tag_(tag), size_(bytes) {
  constexpr std::size_t kLine = 64;
  constexpr std::size_t kHugePage = std::size_t{2} << 20;
  // A large block on huge pages costs fewer faults and translations.
  const bool huge = bytes >= 2 * kHugePage;
  const std::size_t alignment = huge ? kHugePage : kLine;
  // Rounding up must not wrap round to a small block.
  if (bytes > std::numeric_limits<std::size_t>::max() - alignment) throw std::bad_alloc();
  const std::size_t rounded = std::max(alignment, (bytes + alignment - 1) / alignment * alignment);
  data_ = static_cast<std::byte*>(std::aligned_alloc(alignment, rounded));
  if (data_ == nullptr) throw std::bad_alloc();
  // Refused where the system has none; the block works all the same.
  if (huge) ::madvise(data_, rounded, MADV_HUGEPAGE);
  std::memset(data_, 0, rounded);
  if (ledger_ != nullptr) ledger_->add(tag_, size_);
}

Buffer::~Buffer() { release(); }

Buffer::Buffer(Buffer&& other) noexcept
    : ledger_(std::exchange(other.ledger_, nullptr)),
      tag_(other.tag_),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    release();
    ledger_ = std::exchange(other.ledger_, nullptr);
    tag_ = other.tag_;
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

void Buffer::release() {
  if (data_ == nullptr) return;
  std::free(data_);
  if (ledger_ != nullptr) ledger_->remove(tag_, size_);
  data_ = nullptr;
}

}  // namespace nqd

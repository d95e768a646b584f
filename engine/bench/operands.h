// Copies of a kernel's operands, laid out and filled alike.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/ledger.h"
#include "engine/cpu/storage.h"
#include "engine/device/device.h"

namespace nqd::engine {

// Where operands lie in one copy. Values are small, positive and normal.
class OperandLayout {
 public:
  // `count` elements of T, from a cache line on; returns their byte offset.
  template <typename T>
  std::int64_t add(std::int64_t count, float value = 0.01F) {
    const std::int64_t offset = bytes_;
    bytes_ += (count * static_cast<std::int64_t>(sizeof(T)) + kLine - 1) / kLine * kLine;
    fills_.push_back([=](std::byte* copy) {
      T* const data = reinterpret_cast<T*>(copy + offset);
      for (std::int64_t i = 0; i < count; ++i) {
        data[i] = cpu::narrow<T>(value * static_cast<float>(i % kPeriod + 1));
      }
    });
    return offset;
  }
  // `count` indices below `limit`, spread evenly.
  std::int64_t add_indices(std::int64_t count, std::int64_t limit) {
    const std::int64_t offset = bytes_;
    bytes_ += (count * static_cast<std::int64_t>(sizeof(std::int32_t)) + kLine - 1) / kLine * kLine;
    fills_.push_back([=](std::byte* copy) {
      auto* const data = reinterpret_cast<std::int32_t*>(copy + offset);
      // A stride that shares no factor with a power of two, as texts have no order in memory.
      for (std::int64_t i = 0; i < count; ++i) {
        data[i] = static_cast<std::int32_t>(i * 7919 % limit);
      }
    });
    return offset;
  }

  std::int64_t bytes() const { return bytes_; }
  void fill(std::byte* copy) const {
    for (const auto& fill : fills_) fill(copy);
  }

 private:
  static constexpr std::int64_t kLine = 64;
  static constexpr std::int64_t kPeriod = 97;

  std::int64_t bytes_ = 0;
  std::vector<std::function<void(std::byte*)>> fills_;
};

// What a kernel does to one copy of its operands.
using KernelAction = std::function<void(std::byte* copy)>;

template <typename T>
T* at(std::byte* copy, std::int64_t offset) {
  return reinterpret_cast<T*>(copy + offset);
}
template <typename T>
std::span<T> span_at(std::byte* copy, std::int64_t offset, std::int64_t begin, std::int64_t end) {
  return {at<T>(copy, offset) + begin, static_cast<std::size_t>(end - begin)};
}

// In the memory of a device, which must outlive them.
class OperandCopies {
 public:
  OperandCopies(const OperandLayout& layout, std::int64_t rotate_bytes, Device& device)
      : stride_(layout.bytes()),
        count_(std::clamp<std::int64_t>(rotate_bytes / std::max<std::int64_t>(stride_, 1), 2,
                                        kMostCopies)),
        memory_(device.allocate(nullptr, MemoryTag::kWorkspace,
                                static_cast<std::size_t>(stride_ * count_), Reach::kOwn)) {
    std::vector<std::byte> copy(static_cast<std::size_t>(stride_));
    layout.fill(copy.data());
    for (std::int64_t i = 0; i < count_; ++i) {
      device.upload(memory_->data() + i * stride_, copy.data(), copy.size());
    }
  }

  std::byte* next() {
    turn_ = (turn_ + 1) % count_;
    return memory_->data() + turn_ * stride_;
  }

 private:
  static constexpr std::int64_t kMostCopies = 64;

  std::int64_t stride_;
  std::int64_t count_;
  std::int64_t turn_ = 0;
  std::unique_ptr<DeviceMemory> memory_;
};

// One call, ready to run again and again. Successive runs rotate through copies of the operands,
// so that they come from where a step that touches other layers in between would find them.
class KernelCase {
 public:
  KernelCase(const OperandLayout& layout, std::int64_t rotate_bytes, Device& device,
             KernelAction action)
      : copies_(layout, rotate_bytes, device), action_(std::move(action)) {}
  void run() { action_(copies_.next()); }

 private:
  OperandCopies copies_;
  KernelAction action_;
};

}  // namespace nqd::engine

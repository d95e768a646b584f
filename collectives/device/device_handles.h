// Streams, events and memory of a device as members that free themselves.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "collectives/device/device_api.h"

namespace nqd::collectives {

// A stream, event or graph of `api`, which outlives it. Move-only; empty by default.
template <typename Handle>
class DeviceHandle {
 public:
  DeviceHandle() = default;
  DeviceHandle(DeviceApi& api, Handle handle) : api_(&api), handle_(handle) {}
  ~DeviceHandle() { reset(); }
  DeviceHandle(DeviceHandle&& other) noexcept
      : api_(other.api_), handle_(std::exchange(other.handle_, nullptr)) {}
  DeviceHandle& operator=(DeviceHandle&& other) noexcept {
    if (this != &other) {
      reset();
      api_ = other.api_;
      handle_ = std::exchange(other.handle_, nullptr);
    }
    return *this;
  }

  Handle get() const { return handle_; }
  explicit operator bool() const { return handle_ != nullptr; }

 private:
  void reset() {
    if (handle_ != nullptr) api_->release(std::exchange(handle_, nullptr));
  }

  DeviceApi* api_ = nullptr;
  Handle handle_ = nullptr;
};

using OwnedStream = DeviceHandle<DeviceStream>;
using OwnedEvent = DeviceHandle<DeviceEvent>;
using OwnedGraph = DeviceHandle<DeviceGraph>;

inline OwnedStream make_stream(DeviceApi& api) { return {api, api.make_stream()}; }
inline OwnedEvent make_event(DeviceApi& api) { return {api, api.make_event()}; }

// Device memory, or pinned host memory: uninitialised, grown by take() and kept. What it has
// outgrown is kept too until it goes: freeing waits for the whole device, and with it for kernels
// of other ranks that wait for this one.
class DeviceBlock {
 public:
  enum class Kind { kDevice, kPinned };
  DeviceBlock(DeviceApi& api, Kind kind) : api_(&api), kind_(kind) {}
  ~DeviceBlock() { reset(); }
  DeviceBlock(DeviceBlock&& other) noexcept
      : api_(other.api_),
        kind_(other.kind_),
        blocks_(std::move(other.blocks_)),
        size_(std::exchange(other.size_, 0)) {
    other.blocks_.clear();
  }
  DeviceBlock& operator=(DeviceBlock&& other) noexcept {
    if (this == &other) return *this;
    reset();
    api_ = other.api_;
    kind_ = other.kind_;
    blocks_ = std::exchange(other.blocks_, {});
    size_ = std::exchange(other.size_, 0);
    return *this;
  }

  // `bytes` bytes whose content is left over from earlier use. Earlier spans end when it grows.
  std::span<std::byte> take(std::size_t bytes) {
    if (bytes > size_) {
      blocks_.reserve(blocks_.size() + 1);
      blocks_.push_back(kind_ == Kind::kDevice ? api_->allocate(bytes)
                                               : api_->allocate_pinned(bytes));
      size_ = bytes;
    }
    return {blocks_.empty() ? nullptr : blocks_.back(), bytes};
  }

 private:
  void reset() noexcept {
    for (std::byte* const block : blocks_) {
      kind_ == Kind::kDevice ? api_->release(block) : api_->release_pinned(block);
    }
    blocks_.clear();
    size_ = 0;
  }

  DeviceApi* api_;
  Kind kind_;
  std::vector<std::byte*> blocks_;  // the last is the one in use
  std::size_t size_ = 0;            // of it
};

}  // namespace nqd::collectives

// Streams, events and memory of a device as members that free themselves.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

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

// Device memory, or pinned host memory: uninitialised, grown by take() and kept.
class DeviceBlock {
 public:
  enum class Kind { kDevice, kPinned };
  DeviceBlock(DeviceApi& api, Kind kind) : api_(&api), kind_(kind) {}
  ~DeviceBlock() { reset(); }
  DeviceBlock(DeviceBlock&& other) noexcept
      : api_(other.api_),
        kind_(other.kind_),
        data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  DeviceBlock& operator=(DeviceBlock&& other) noexcept {
    if (this == &other) return *this;
    reset();
    api_ = other.api_;
    kind_ = other.kind_;
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }

  // `bytes` bytes whose content is left over from earlier use. Earlier spans end when it grows.
  std::span<std::byte> take(std::size_t bytes) {
    if (bytes > size_) {
      reset();
      data_ = kind_ == Kind::kDevice ? api_->allocate(bytes) : api_->allocate_pinned(bytes);
      size_ = bytes;
    }
    return {data_, bytes};
  }

 private:
  void reset() noexcept {
    if (data_ == nullptr) return;
    kind_ == Kind::kDevice ? api_->release(data_) : api_->release_pinned(data_);
    data_ = nullptr;
    size_ = 0;
  }

  DeviceApi* api_;
  Kind kind_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace nqd::collectives

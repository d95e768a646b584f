// Streams, events and the device that a thread uses. All throw NQD4060 or NQD4061 (error.h).
#pragma once

#include <cstddef>
#include <utility>

#include "engine/cuda/handles.h"

namespace nqd::engine::cuda {

// The device of the calling thread. Throws NQD3060 when there is none of that number.
void use_device(int device);
int current_device();
// Waits for all work of the calling thread's device.
void synchronize_device();

// The device of the calling thread for as long as this lives.
class OnDevice {
 public:
  explicit OnDevice(int device);
  ~OnDevice();
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  int before_;
  int device_;
};

// A mark in a stream.
class Event {
 public:
  enum class Kind : bool { kOrder, kTiming };
  explicit Event(Kind kind = Kind::kOrder);
  ~Event();
  Event(Event&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Event& operator=(Event&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }

  EventHandle handle() const { return handle_; }
  void record(StreamHandle stream);
  // Whether all that was before the mark is done; true if it was never recorded.
  bool done() const;
  void synchronize() const;
  // Milliseconds from `start` to this one; both of kind kTiming and done.
  float milliseconds_since(const Event& start) const;

 private:
  EventHandle handle_ = nullptr;
};

// A queue of work of one device, which does not wait for the default stream.
class Stream {
 public:
  // kHigh: its kernels start before waiting ones of other streams, as communication wants.
  enum class Priority : bool { kNormal, kHigh };
  explicit Stream(Priority priority = Priority::kNormal);
  ~Stream();
  Stream(Stream&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Stream& operator=(Stream&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }

  StreamHandle handle() const { return handle_; }
  void synchronize() const;
  // What comes after on this stream waits for the mark.
  void wait(const Event& event) const;

 private:
  StreamHandle handle_ = nullptr;
};

// The three queues of a rank: kernels, collectives, and copies between host and device.
struct RankStreams {
  Stream compute;
  Stream communication{Stream::Priority::kHigh};
  Stream copy;
};

// In the order of the stream; the direction is that of the addresses. Host memory that is not
// pinned makes the caller wait.
void copy_async(StreamHandle stream, void* to, const void* from, std::size_t bytes);
void fill_zero(StreamHandle stream, void* to, std::size_t bytes);

}  // namespace nqd::engine::cuda

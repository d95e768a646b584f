// A CUDA runtime whose devices are host memory: every stream is a thread that does what was put on
// it in order, so that a copy, or a call of NCCL, that waits for too little works on wrong data
// here as it would on a GPU.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "collectives/device/device_api.h"

namespace nqd::collectives::emulated {

class Device : public DeviceApi {
 public:
  explicit Device(int devices) : devices_(devices) {}

  int device_count() override { return devices_; }
  void use(int) override {}
  DeviceIdentity identity(int device) override;
  std::byte* allocate(std::size_t bytes) override;
  void release(std::byte* memory) noexcept override;
  std::byte* allocate_pinned(std::size_t bytes) override { return allocate(bytes); }
  void release_pinned(std::byte* memory) noexcept override { release(memory); }
  void copy(std::byte* to, const std::byte* from, std::size_t bytes, DeviceStream stream) override;
  DeviceStream make_stream() override;
  void release(DeviceStream stream) noexcept override;
  DeviceEvent make_event() override;
  void release(DeviceEvent event) noexcept override;
  void record(DeviceEvent event, DeviceStream stream) override;
  bool is_complete(DeviceEvent event) override;
  void order(DeviceStream stream, DeviceEvent event) override;
  double elapsed_s(DeviceEvent begin, DeviceEvent end) override;
  void begin_capture(DeviceStream stream) override;
  DeviceGraph end_capture(DeviceStream stream) override;
  void launch(DeviceGraph graph, DeviceStream stream) override;
  void release(DeviceGraph graph) noexcept override;

  // Puts `work` on the stream, as a kernel is; null: runs it here.
  static void put(DeviceStream stream, std::function<void()> work);
  // From now on events are not complete but failed.
  void lose() { lost_ = true; }
  // Memory, streams, events and graphs that were made and not released.
  int live() const { return live_; }

 private:
  const int devices_;
  std::atomic<bool> lost_ = false;
  std::atomic<int> live_ = 0;
};

}  // namespace nqd::collectives::emulated

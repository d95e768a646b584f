// A device whose operations run on an emulated stream, as those of a GPU do: by themselves, in
// order, while the host goes on.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "tests/collectives/nccl/emulated_device.h"
#include "tests/engine/device/late_device.h"

namespace nqd::tests {

class StreamDevice final : public LateDevice {
 public:
  explicit StreamDevice(collectives::emulated::Device& api)
      : api_(api), stream_(make_stream(api)), mark_(make_event(api)) {
    queue().go_on(
        [this](std::function<void()> operation) {
          collectives::emulated::Device::put(stream_.get(), std::move(operation));
        },
        [this] { wait(look_); });
  }
  ~StreamDevice() override { drain(); }

  std::unique_ptr<engine::DeviceMemory> allocate(MemoryLedger* ledger, MemoryTag tag,
                                                 std::size_t bytes, engine::Reach reach) override {
    return std::make_unique<Pooled>(LateDevice::allocate(ledger, tag, bytes, reach), given_back_);
  }
  void before_message() override {}
  collectives::DeviceStream compute_stream() const override { return stream_.get(); }
  void attach(engine::MessageHooks hooks) override { look_ = std::move(hooks.look); }

  // Waits without looking at anything: after an abort.
  void drain() { wait({}); }

  using Blocks = std::vector<std::unique_ptr<engine::DeviceMemory>>;
  // What has come back. To be kept until the streams of messages are gone, which may still use it.
  std::shared_ptr<Blocks> given_back() const { return given_back_; }

 private:
  // What comes back stays allocated, as in a pool.
  class Pooled final : public engine::DeviceMemory {
   public:
    Pooled(std::unique_ptr<engine::DeviceMemory> block, std::shared_ptr<Blocks> given_back)
        : DeviceMemory(block->data()),
          block_(std::move(block)),
          given_back_(std::move(given_back)) {}
    ~Pooled() override { given_back_->push_back(std::move(block_)); }

   private:
    std::unique_ptr<engine::DeviceMemory> block_;
    std::shared_ptr<Blocks> given_back_;
  };

  void wait(const std::function<void()>& look) {
    api_.record(mark_.get(), stream_.get());
    while (!api_.is_complete(mark_.get())) {
      if (look) look();
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

  collectives::emulated::Device& api_;
  std::shared_ptr<Blocks> given_back_ = std::make_shared<Blocks>();
  collectives::OwnedStream stream_;
  collectives::OwnedEvent mark_;
  std::function<void()> look_;
};

}  // namespace nqd::tests

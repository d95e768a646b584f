// Numbers on their way between the host and a stream, through page-locked memory, so that neither
// waits for the other.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <vector>

#include "engine/cuda/device_memory.h"
#include "engine/cuda/handles.h"
#include "engine/cuda/streams.h"
#include "engine/numerics/exact_sum.h"

namespace nqd::engine::cuda {

// Adds the time until its end to a count.
class CountedWait {
 public:
  explicit CountedWait(double& seconds) : seconds_(seconds) {}
  ~CountedWait() { seconds_ += std::chrono::duration<double>(Clock::now() - start_).count(); }
  CountedWait(const CountedWait&) = delete;
  CountedWait& operator=(const CountedWait&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  double& seconds_;
  const Clock::time_point start_ = Clock::now();
};

// From the host to the device, in the order of one stream.
class Uploads {
 public:
  // `from` may change when this returns. Waits only while all places are on their way, and then
  // calls `look` now and then where that is not empty.
  void copy(StreamHandle stream, void* to, const void* from, std::size_t bytes,
            const std::function<void()>& look);
  std::size_t pinned_bytes() const;
  double waited_s() const { return waited_s_; }

 private:
  // Copies of this size reach the rate of the bus.
  static constexpr std::size_t kPlaceBytes = std::size_t{1} << 20;
  struct Place {
    PinnedBuffer memory;
    Event arrived;
  };
  std::array<Place, 8> places_;
  std::size_t next_ = 0;
  double waited_s_ = 0;
};

// From the device into sums of the host.
class HostSums {
 public:
  // Where the device writes `count` numbers, which are then part of `sum`. Valid until add_up.
  double* take(ExactSum& sum, std::size_t count);
  bool empty() const { return taken_.empty(); }
  // Adds what was taken, all of which the device has written, in the order of the calls.
  void add_up();
  std::size_t pinned_bytes() const;

 private:
  static constexpr std::size_t kBlock = std::size_t{1} << 16;  // numbers
  struct Taken {
    ExactSum* sum = nullptr;
    const double* values = nullptr;
    std::size_t count = 0;
  };
  std::vector<PinnedBuffer> blocks_;
  std::size_t block_ = 0;
  std::size_t used_ = 0;  // numbers of that block
  std::vector<Taken> taken_;
};

}  // namespace nqd::engine::cuda

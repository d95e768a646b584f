// How long something takes, and how much of it the host works.
#pragma once

#include <chrono>
#include <optional>

#include "collectives/waiting.h"
#include "engine/device/device.h"

namespace nqd::engine {

class HostClock {
 public:
  // From now on, on the calling thread. The device must outlive it.
  explicit HostClock(const Device& device) : device_(device), waited_before_(waited_s()) {}

  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  // Of seconds(), what the host waited neither for the device nor for other ranks; nothing where
  // the host is the device.
  std::optional<double> at_work_s() const {
    if (device_.is_host()) return std::nullopt;
    return seconds() - (waited_s() - waited_before_);
  }

 private:
  double waited_s() const { return device_.waited_s() + collectives::waited_s(); }

  const Device& device_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  const double waited_before_;
};

}  // namespace nqd::engine

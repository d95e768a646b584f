// How a rank waits for MPI, which has no descriptor to sleep on: it gives its core away at once,
// and sleeps when nothing happens for a while, so that more ranks than cores do not starve each
// other.
#pragma once

#include <sched.h>

#include <chrono>
#include <thread>

namespace nqd::collectives::mpi {

class Backoff {
 public:
  using Clock = std::chrono::steady_clock;

  // Call between two polls.
  void pause() {
    const auto waited = Clock::now() - start_;
    if (waited < kYieldFor) {
      ::sched_yield();
    } else {
      std::this_thread::sleep_for(waited < kShortSleepFor  ? kShortSleep
                                  : waited < kLongSleepFor ? kLongSleep
                                                           : kIdleSleep);
    }
  }
  std::chrono::duration<double> waited() const { return Clock::now() - start_; }

 private:
  // A message between ranks of one host takes microseconds; a sleep costs about 100 of them.
  static constexpr std::chrono::microseconds kYieldFor{500};
  static constexpr std::chrono::milliseconds kShortSleepFor{20};
  static constexpr std::chrono::microseconds kShortSleep{50};
  static constexpr std::chrono::microseconds kLongSleep{500};
  // A poll may cost 50 us on a busy host: a wait for a rank that is stopped must cost next to
  // nothing.
  static constexpr std::chrono::milliseconds kLongSleepFor{200};
  static constexpr std::chrono::milliseconds kIdleSleep{5};

  const Clock::time_point start_ = Clock::now();
};

}  // namespace nqd::collectives::mpi

// How the host waits for a device that may itself wait for another rank.
#pragma once

#include <chrono>
#include <thread>

namespace nqd::engine::cuda {

// Returns when `done`; calls `look`, whose exceptions end the wait, every few milliseconds. Sleeps
// a little between two questions: a thread that only yields would take a core from the ranks beside
// it, and a sleep of 20 us is nothing against what is waited for.
template <typename Done, typename Look>
void wait_looking(const Done& done, const Look& look) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::microseconds kSleep{20};
  constexpr std::chrono::milliseconds kLookEvery{5};
  Clock::time_point looked = Clock::now();
  while (!done()) {
    if (const Clock::time_point now = Clock::now(); now - looked >= kLookEvery) {
      looked = now;
      look();
    }
    std::this_thread::sleep_for(kSleep);
  }
}

}  // namespace nqd::engine::cuda

#include "collectives/shared/phase.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <climits>
#include <ctime>

namespace nqd::collectives {
namespace {

using Clock = std::chrono::steady_clock;

// Waking a sleeper takes tens of microseconds: shorter waits are not worth a sleep.
constexpr std::chrono::microseconds kYieldFor{100};
// How late a fault of the world may be noticed by a sleeper.
constexpr std::timespec kSleep{0, 20'000'000};

// Not the private form: the word may lie in memory that processes share.
long futex(std::atomic<std::uint32_t>* word, int operation, std::uint32_t value,
           const std::timespec* timeout) {
  return ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(word), operation, value, timeout,
                   nullptr, 0);
}

void pause_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

void Phase::advance_to(std::uint32_t value) {
  // Sequentially consistent on both words: either the sleeper sees the new count, or it is seen.
  count_.store(value);
  if (sleepers_.load() != 0) futex(&count_, FUTEX_WAKE, INT_MAX, nullptr);
}

void Phase::ring() {
  count_.fetch_add(1);
  if (sleepers_.load() != 0) futex(&count_, FUTEX_WAKE, INT_MAX, nullptr);
}

void Phase::await(std::uint32_t value, int spins, const std::function<void(double)>& check) {
  for (int i = 0; i < spins; ++i) {
    if (has_reached(value)) return;
    pause_core();
  }
  const auto start = Clock::now();
  for (;;) {
    if (has_reached(value)) return;
    const auto waited = Clock::now() - start;
    if (waited < kYieldFor) {
      ::sched_yield();
      continue;
    }
    check(std::chrono::duration<double>(waited).count());
    sleep_until_reached(value);
  }
}

void Phase::sleep_until_reached(std::uint32_t value) {
  ++sleepers_;
  const std::uint32_t seen = count_.load();
  if (static_cast<std::int32_t>(seen - value) < 0) futex(&count_, FUTEX_WAIT, seen, &kSleep);
  --sleepers_;
}

}  // namespace nqd::collectives

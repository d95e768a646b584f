// A counter in memory that ranks share, to wait on: with it a rank shows its peers how far it is
// (advance_to, by one rank alone), or they wake it (ring, by any).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

namespace nqd::collectives {

class alignas(64) Phase {
 public:
  // For the owner. What it wrote before is visible to those that see `value`.
  void advance_to(std::uint32_t value);
  // Adds one. What the caller wrote before is visible to those that see it.
  void ring();
  std::uint32_t count() const { return count_.load(std::memory_order_acquire); }
  // Counters wrap.
  bool has_reached(std::uint32_t value) const {
    return static_cast<std::int32_t>(count_.load(std::memory_order_acquire) - value) >= 0;
  }

  // Returns when the counter has reached `value`: spins `spins` times, then gives the core away for
  // a moment, then sleeps. `check` is called with the seconds waited, now and then after the spins
  // and at least every 20 ms; it ends the wait by throwing.
  void await(std::uint32_t value, int spins, const std::function<void(double waited_s)>& check);

 private:
  void sleep_until_reached(std::uint32_t value);

  static_assert(std::atomic<std::uint32_t>::is_always_lock_free);
  std::atomic<std::uint32_t> count_{0};
  std::atomic<std::uint32_t> sleepers_{0};
};

}  // namespace nqd::collectives

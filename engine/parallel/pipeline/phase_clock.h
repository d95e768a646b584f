// What a rank does in a step, and for how long: its own work apart from what it waits for.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace nqd::engine {

enum class Phase : std::uint8_t {
  kData,      // loading samples
  kForward,   // of all micro-batches
  kBackward,  // recomputation included
  kUpdate,    // and everything else of a step: norms, moments, weights
};
inline constexpr std::size_t kPhases = 4;
std::string_view name(Phase phase);  // "data", "forward", "backward", "update"

using PhaseTimes = std::array<double, kPhases>;  // seconds

// Of a rank whose host asks ahead of a device that waits for messages by itself: its work cannot be
// told apart by phases, and all but the loading of data is kUpdate, without the `stood_s` seconds
// for which the device stood still.
PhaseTimes on_device(const PhaseTimes& of_host, double stood_s);

class PhaseClock {
 public:
  // Enters kUpdate; times begin at 0.
  void start();
  // Waits (collectives/waiting.h) count for no phase. Until the next start nothing counts.
  PhaseTimes stop();

  // The phase from here on. Returns the one before, for leave.
  Phase enter(Phase phase);
  void leave(Phase to);

  // A rank that is slow: it sleeps so long whenever it enters the phase.
  void slow_for_test(Phase phase, double seconds);

 private:
  void lap();

  Phase phase_ = Phase::kUpdate;
  std::chrono::steady_clock::time_point since_{};
  double waited_before_ = 0;
  PhaseTimes times_{};
  Phase slow_ = Phase::kUpdate;
  double slow_s_ = 0;
};

// A phase for the length of a scope. A null clock measures nothing.
class InPhase {
 public:
  InPhase(PhaseClock* clock, Phase phase)
      : clock_(clock), before_(clock == nullptr ? phase : clock->enter(phase)) {}
  ~InPhase() {
    if (clock_ != nullptr) clock_->leave(before_);
  }
  InPhase(const InPhase&) = delete;
  InPhase& operator=(const InPhase&) = delete;

 private:
  PhaseClock* clock_;
  Phase before_;
};

}  // namespace nqd::engine

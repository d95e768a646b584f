#include "engine/parallel/pipeline/phase_clock.h"

#include <algorithm>
#include <numeric>
#include <thread>
#include <utility>

#include "collectives/waiting.h"

namespace nqd::engine {

using Clock = std::chrono::steady_clock;

std::string_view name(Phase phase) {
  constexpr std::array<std::string_view, kPhases> kNames = {"data", "forward", "backward",
                                                            "update"};
  return kNames[static_cast<std::size_t>(phase)];
}

PhaseTimes on_device(const PhaseTimes& of_host, double stood_s) {
  const double all = std::accumulate(of_host.begin(), of_host.end(), 0.0);
  PhaseTimes times{};
  double& data = times[static_cast<std::size_t>(Phase::kData)];
  data = of_host[static_cast<std::size_t>(Phase::kData)];
  times[static_cast<std::size_t>(Phase::kUpdate)] = std::max(0.0, all - data - stood_s);
  return times;
}

void PhaseClock::start() {
  times_ = {};
  phase_ = Phase::kUpdate;
  since_ = Clock::now();
  waited_before_ = collectives::waited_s();
}

PhaseTimes PhaseClock::stop() {
  lap();
  return times_;
}

Phase PhaseClock::enter(Phase phase) {
  lap();
  const Phase before = std::exchange(phase_, phase);
  if (slow_s_ > 0 && phase == slow_) {
    std::this_thread::sleep_for(std::chrono::duration<double>(slow_s_));
  }
  return before;
}

void PhaseClock::leave(Phase to) {
  lap();
  phase_ = to;
}

void PhaseClock::slow_for_test(Phase phase, double seconds) {
  slow_ = phase;
  slow_s_ = seconds;
}

void PhaseClock::lap() {
  const Clock::time_point now = Clock::now();
  const double waited = collectives::waited_s();
  times_[static_cast<std::size_t>(phase_)] +=
      std::chrono::duration<double>(now - since_).count() - (waited - waited_before_);
  since_ = now;
  waited_before_ = waited;
}

}  // namespace nqd::engine

#include "engine/train/step_watch.h"

#include <algorithm>
#include <utility>

#include "base/units.h"
#include "collectives/liveness/stall.h"
#include "engine/numerics/robust.h"

namespace nqd::engine {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kPatience = 20;
// Longer than a wait goes on behind its deadline (collectives/liveness/watchdog.h: kNewsWait).
constexpr double kLater_s = 3;
constexpr std::size_t kSteps = 64;
constexpr std::chrono::milliseconds kTick{100};

}  // namespace

StepWatch::StepWatch(int rank, StepWatchOptions options)
    : options_(std::move(options)), rank_(rank) {
  steps_.reserve(kSteps);
  thread_ = std::thread([this] { loop(); });
}

StepWatch::~StepWatch() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

double StepWatch::limit_s() const {
  if (!is_step_ || steps_.empty()) {
    return kPatience * std::max(options_.deadline_s, options_.expected_step_s) + kLater_s;
  }
  return std::max(options_.deadline_s, kPatience * median(steps_)) + kLater_s;
}

void StepWatch::begin(const std::string& what, bool is_step) {
  const std::lock_guard lock(mutex_);
  what_ = what;
  is_step_ = is_step;
  elapsed_ = 0;
  start_ = Clock::now();
  running_ = true;
}

void StepWatch::end() {
  const std::lock_guard lock(mutex_);
  running_ = false;
  if (!is_step_) return;
  const double step_s = std::chrono::duration<double>(Clock::now() - start_).count();
  if (steps_.size() < kSteps) {
    steps_.push_back(step_s);
  } else {
    steps_[next_++ % kSteps] = step_s;
  }
}

void StepWatch::loop() {
  std::unique_lock lock(mutex_);
  Clock::time_point before = Clock::now();
  while (!stopping_) {
    changed_.wait_for(lock, kTick);
    const Clock::time_point now = Clock::now();
    // A process that was stopped has one long tick.
    const auto passed = std::min<Clock::duration>(now - std::exchange(before, now), 5 * kTick);
    if (!running_) continue;
    elapsed_ += std::chrono::duration<double>(passed).count();
    // The median is not worth its while before.
    if (elapsed_ < options_.deadline_s || elapsed_ < limit_s()) continue;
    running_ = false;
    const std::string what = "rank " + std::to_string(rank_) + " did not complete " + what_ +
                             " within " + format_seconds(limit_s());
    lock.unlock();
    collectives::fail_stalled(what, options_.last_words);
    lock.lock();
  }
}

}  // namespace nqd::engine

// What a watchdog tells other hosts and hears of them.
#include <algorithm>

#include "collectives/liveness/watchdog.h"

namespace nqd::collectives {

void Watchdog::talk_to_hosts() {
  const auto now = Clock::now();
  if (!faulted()) {
    if (alive_time_ && now - *alive_time_ < kAliveEvery) return;
    alive_time_ = now;
    return relay_->send_alive();
  }
  std::unique_lock lock(mutex_);
  if (now - fault_time_ > kRelayFor) return;
  const Fault fault = *fault_;
  lock.unlock();
  relay_->send(fault);
}

void Watchdog::hear_hosts() {
  while (const auto news = relay_->receive()) {
    if (news->fault) fail(*news->fault);
    const bool known = news->rank >= 0 && static_cast<std::size_t>(news->rank) < heard_.size();
    if (known) board_->hear(news->rank);
  }
}

std::chrono::milliseconds Watchdog::news_wait(const std::vector<int>& pending) const {
  const auto own_host = host_map_.host_of(static_cast<std::size_t>(own_world_rank()));
  const bool all_here = std::all_of(pending.begin(), pending.end(), [&](int rank) {
    return host_map_.host_of(static_cast<std::size_t>(rank)) == own_host;
  });
  return all_here ? kNewsWait + kSpeakLater : kNewsWait;
}

void Watchdog::await_news(const Stage& stage, const std::vector<int>& group,
                          std::chrono::milliseconds longest) {
  // The watchdog's own thread is the one that hears.
  if (std::this_thread::get_id() == thread_.get_id()) return;
  const auto end = Clock::now() + longest;
  while (!faulted() && Clock::now() < end && !knows_culprit(stage, others_of(group))) {
    std::this_thread::sleep_for(kTick / 2);
  }
}

std::vector<int> Watchdog::unheard_ranks(double silence_s) const {
  std::vector<int> ranks;
  const std::lock_guard lock(mutex_);
  for (std::size_t rank = 0; rank < heard_.size(); ++rank) {
    const auto& last = heard_[rank].last;
    if (last && std::chrono::duration<double>(looked_ - *last).count() >= silence_s) {
      ranks.push_back(static_cast<int>(rank));
    }
  }
  return ranks;
}

}  // namespace nqd::collectives

#include "collectives/liveness/watchdog.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "collectives/communicator.h"
#include "collectives/liveness/termination.h"
#include "collectives/world.h"

namespace nqd::collectives {
namespace {

// The watchdog of this process, for abort_process.
std::atomic<Watchdog*> g_watchdog{nullptr};

double seconds_between(Watchdog::Clock::time_point from, Watchdog::Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

Watchdog::Watchdog(std::unique_ptr<Board> board, std::uint32_t own_slot,
                   std::vector<std::string> hosts, std::function<void(const Error&)> last_words,
                   std::unique_ptr<Relay> relay)
    : board_(std::move(board)),
      own_slot_(own_slot),
      hosts_(std::move(hosts)),
      host_map_(hosts_),
      last_words_(std::move(last_words)),
      relay_(std::move(relay)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      looked_(Clock::now()),
      heard_(hosts_.size()) {
  open_peers();
  thread_ = std::thread([this] { loop(); });
  g_watchdog = this;
}

Watchdog::~Watchdog() {
  g_watchdog = nullptr;
  stopping_ = true;
  wake();
  thread_.join();
  for (const Peer& peer : peers_) {
    if (peer.descriptor >= 0) ::close(peer.descriptor);
  }
  ::close(wake_);
}

void Watchdog::wake() const {
  const std::uint64_t one = 1;
  // Even if this failed, the thread looks around at its next tick.
  [[maybe_unused]] const auto written = ::write(wake_, &one, sizeof one);
}

void Watchdog::open_peers() {
  int unwatched = 0;  // errno of the first failure
  for (std::uint32_t slot = 0; slot < board_->slots(); ++slot) {
    if (slot == own_slot_) continue;
    Peer peer{slot, -1, board_->heartbeat(slot), Clock::now()};
    peer.descriptor =
        static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(board_->pid(slot)), 0u));
    const int reason = peer.descriptor < 0 ? errno : 0;
    peer.gone = reason == ESRCH;
    peers_.push_back(peer);
    if (peer.gone) {
      on_exit(peer);
    } else if (unwatched == 0) {
      unwatched = reason;
    }
  }
  if (unwatched != 0) {
    log::warn(std::string("this system has no pidfd (") + std::strerror(unwatched) +
              "): a lost rank is noticed at the deadline only");
  }
}

bool Watchdog::faulted() {
  if (faulted_.load(std::memory_order_acquire)) return true;
  if (!board_->has_fault()) return false;
  fail(*board_->fault());
  return true;
}

bool Watchdog::must_stop_waiting() {
  if (!faulted()) return false;
  const std::lock_guard lock(mutex_);
  return fault_->kind != Fault::Kind::kPeerFailed || Clock::now() - fault_time_ >= kSettle;
}

void Watchdog::raise() const {
  std::unique_lock lock(mutex_);
  const Fault fault = *fault_;
  lock.unlock();
  fault.raise();
}

void Watchdog::fail(const Fault& fault) {
  board_->record_fault(fault);
  // The board's is the one that every rank of the host reports. It is missing only while another
  // process is writing its own, or died in that.
  const Fault first = board_->fault().value_or(fault);
  const std::lock_guard lock(mutex_);
  if (fault_) return;
  fault_ = first;
  fault_time_ = Clock::now();
  faulted_.store(true, std::memory_order_release);
  if (relay_) wake();
}

void Watchdog::fail_timeout(const Stage& stage, double waited_s, const std::vector<int>& group,
                            const std::vector<int>& pending) {
  if (relay_) await_news(stage, group, news_wait(pending));
  fail(timeout_fault(stage, waited_s, others_of(group), pending));
}

std::vector<PeerStatus> Watchdog::others_of(const std::vector<int>& group) const {
  std::vector<PeerStatus> others;
  for (const int rank : group) {
    if (rank != own_world_rank()) others.push_back(status(rank));
  }
  return others;
}

bool Watchdog::fail_stalled(const std::string& what) {
  Watchdog* const watchdog = g_watchdog;
  if (watchdog == nullptr) return false;
  const int own = watchdog->own_world_rank();
  Fault fault;
  fault.kind = Fault::Kind::kTimeout;
  fault.message = what;
  for (int rank = 0; rank < static_cast<int>(watchdog->hosts_.size()); ++rank) {
    if (rank != own) fault.ranks.push_back(rank);
    const PeerStatus status = watchdog->status(rank);
    if (rank != own && !status.stage_known) continue;
    const Stage stage = rank == own ? watchdog->board_->stage(watchdog->own_slot_) : status.stage;
    fault.message += "; rank " + std::to_string(rank) + " on host " + watchdog->host(rank) +
                     (stage.active ? ": in " : ": computes after ") + describe(stage);
  }
  watchdog->fail(fault);
  return true;
}

void Watchdog::fail_silent(std::chrono::milliseconds deadline) {
  // Shorter silences are between two signs of life.
  const double limit_s = std::chrono::duration<double>(deadline).count();
  std::vector<int> silent;
  {
    const std::lock_guard lock(mutex_);
    for (const Peer& peer : peers_) {
      const double silent_s = seconds_between(peer.last_beat, looked_);
      if (!peer.gone && silent_s >= std::max(limit_s, kSilentAfter_s)) {
        silent.push_back(board_->world_rank(peer.slot));
      }
    }
  }
  if (silent.empty()) silent = unheard_ranks(std::max(limit_s, kHostSilentAfter_s));
  if (silent.empty()) return;
  const Stage own = board_->stage(own_slot_);
  fail_timeout(own, limit_s, silent, silent);
}

void Watchdog::raise_if_faulted_soon() {
  const auto end = Clock::now() + 10 * kTick;
  while (Clock::now() < end) {
    if (faulted()) raise();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

int Watchdog::spins() const {
  // A short wait is not worth a sleep.
  constexpr int kSpins = 2000;
  return have_a_cpu_each(board_->cpu_shares()) ? kSpins : 0;
}

void Watchdog::acknowledge() {
  if (faulted()) acknowledged_ = true;
}

bool Watchdog::all_reported() const {
  const std::lock_guard lock(mutex_);
  const auto now = Clock::now();
  return std::all_of(peers_.begin(), peers_.end(), [&](const Peer& peer) {
    const RankState state = board_->state(peer.slot);
    return peer.gone || state == RankState::kReported || state == RankState::kFinished ||
           seconds_between(peer.last_beat, now) > kSilentAfter_s;
  });
}

void Watchdog::leave_together() {
  Watchdog* const watchdog = g_watchdog;
  if (watchdog == nullptr || !watchdog->faulted()) return;
  watchdog->acknowledge();
  watchdog->set_state(RankState::kReported);
  std::unique_lock lock(watchdog->mutex_);
  const auto end = watchdog->fault_time_ + kLeaveWithin;
  auto earliest = watchdog->fault_time_;
  const Fault fault = *watchdog->fault_;
  lock.unlock();
  // The thread may not have had its turn yet.
  if (watchdog->relay_) {
    watchdog->relay_->send(fault);
    earliest += kStayFor;
  }
  while ((!watchdog->all_reported() || Clock::now() < earliest) && Clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

PeerStatus Watchdog::status(int world_rank) const {
  PeerStatus result;
  result.world_rank = world_rank;
  result.host = host(world_rank);
  result.stage_known = false;
  const std::lock_guard lock(mutex_);
  const auto rank = static_cast<std::size_t>(world_rank);
  if (heard_[rank].last) result.silent_s = seconds_between(*heard_[rank].last, looked_);
  for (const int beside : host_map_.members(host_map_.host_of(rank))) {
    const auto& last = heard_[static_cast<std::size_t>(beside)].last;
    if (!last) continue;
    const double silent_s = seconds_between(*last, looked_);
    result.host_silent_s = std::min(result.host_silent_s.value_or(silent_s), silent_s);
  }
  for (const Peer& peer : peers_) {
    if (board_->world_rank(peer.slot) != world_rank) continue;
    result.stage_known = true;
    result.stage = board_->stage(peer.slot);
    result.silent_s = seconds_between(peer.last_beat, looked_);
    const RankState state = board_->state(peer.slot);
    result.ended = state == RankState::kBodyEnded || state == RankState::kFinished;
  }
  return result;
}

void Watchdog::loop() {
  log::set_thread_prefix("rank " + std::to_string(own_world_rank()));
  const TerminationSignal terminate(wake_);
  while (!stopping_) {
    board_->beat(own_slot_);
    note_heartbeats();
    check_library_calls();
    check_grace();
    check_termination();
    if (relay_) talk_to_hosts();
    poll_peers();
  }
}

void Watchdog::poll_peers() {
  std::vector<pollfd> waits = {{wake_, POLLIN, 0}};
  for (const Peer& peer : peers_) waits.push_back({peer.descriptor, POLLIN, 0});
  if (relay_) waits.push_back({relay_->descriptor(), POLLIN, 0});
  if (::poll(waits.data(), waits.size(), static_cast<int>(kTick.count())) <= 0) return;
  std::uint64_t count = 0;
  if (waits[0].revents != 0) [[maybe_unused]]
    const auto got = ::read(wake_, &count, sizeof count);
  if (relay_ && waits.back().revents != 0) hear_hosts();
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    if (waits[i + 1].revents == 0) continue;
    on_exit(peers_[i]);
    ::close(std::exchange(peers_[i].descriptor, -1));
    const std::lock_guard lock(mutex_);
    peers_[i].gone = true;
  }
}

void Watchdog::on_exit(const Peer& peer) {
  const RankState state = board_->state(peer.slot);
  if (state == RankState::kFinished) return;
  // The launcher ends the whole job with SIGTERM: then nobody was lost.
  if (state == RankState::kTerminated && TerminationSignal::arrived()) return;
  const int rank = board_->world_rank(peer.slot);
  fail({Fault::Kind::kPeerLost, {rank}, host(rank), lost_message(peer.slot)});
}

std::string Watchdog::lost_message(std::uint32_t slot) const {
  const int rank = board_->world_rank(slot);
  const Stage stage = board_->stage(slot);
  return "rank " + std::to_string(rank) + " on host " + host(rank) +
         " was lost: its process (pid " + std::to_string(board_->pid(slot)) + ") ended" +
         (board_->state(slot) == RankState::kTerminated ? " on SIGTERM" : "") +
         (stage.active ? " in " : " after ") + describe(stage);
}

void Watchdog::discount(Clock::duration stopped) {
  for (Peer& peer : peers_) peer.last_beat += stopped;
  for (Heard& heard : heard_) {
    if (heard.last) *heard.last += stopped;
  }
  for (LibraryCall* call : library_calls_) call->start_ += stopped;
}

void Watchdog::note_heartbeats() {
  const std::lock_guard lock(mutex_);
  const auto now = Clock::now();
  const auto unseen = now - std::exchange(looked_, now);
  if (unseen > kStoppedFor) discount(unseen);
  for (Peer& peer : peers_) {
    const std::uint64_t beat = board_->heartbeat(peer.slot);
    if (beat == peer.heartbeat) continue;
    peer.heartbeat = beat;
    peer.last_beat = now;
  }
  if (!relay_) return;
  for (std::size_t rank = 0; rank < heard_.size(); ++rank) {
    const std::uint64_t count = board_->heard(static_cast<int>(rank));
    if (count == heard_[rank].count) continue;
    heard_[rank] = {count, now};
  }
}

void Watchdog::check_library_calls() {
  if (faulted()) return;
  const auto now = Clock::now();
  std::optional<std::pair<Stage, std::vector<int>>> late;
  double waited_s = 0;
  Clock::duration overdue{};
  {
    const std::lock_guard lock(mutex_);
    for (const LibraryCall* call : library_calls_) {
      if (now - call->start_ < call->deadline_) continue;
      late.emplace(call->stage_, call->group_);
      waited_s = seconds_between(call->start_, now);
      overdue = now - call->start_ - call->deadline_;
    }
  }
  if (!late) return;
  // await_news would keep this thread from hearing them.
  const bool may_hear = relay_ && overdue < kNewsWait;
  if (may_hear && !knows_culprit(late->first, others_of(late->second))) return;
  fail_timeout(late->first, waited_s, late->second, late->second);
}

void Watchdog::check_grace() {
  if (!faulted() || acknowledged_) return;
  std::unique_lock lock(mutex_);
  if (Clock::now() - fault_time_ < kGrace) return;
  const Fault fault = *fault_;
  lock.unlock();
  try {
    fault.raise();
  } catch (const Error& error) {
    log::error("[" + error.code() + "]: " + error.what() +
               "\n  this rank did not come back from its own work, so its watchdog ends it");
    if (last_words_) last_words_(error);
  }
  abort_process(static_cast<int>(ExitCode::kFault));
}

void Watchdog::check_termination() {
  if (!TerminationSignal::arrived()) return;
  const auto now = Clock::now();
  if (!terminate_time_) terminate_time_ = now;
  if (faulted()) {
    const std::lock_guard lock(mutex_);
    if (now - fault_time_ < kTerminateAfterFault) return;
  } else if (now - *terminate_time_ < kTerminateWait) {
    return;
  }
  set_state(RankState::kTerminated);
  TerminationSignal::deliver();
}

Watchdog::LibraryCall::LibraryCall(Watchdog& watchdog, Stage stage, std::vector<int> group,
                                   std::chrono::milliseconds deadline)
    : watchdog_(watchdog),
      stage_(std::move(stage)),
      group_(std::move(group)),
      start_(Clock::now()),
      deadline_(deadline) {
  const std::lock_guard lock(watchdog_.mutex_);
  place_ = watchdog_.library_calls_.insert(watchdog_.library_calls_.end(), this);
}

Watchdog::LibraryCall::~LibraryCall() {
  const std::lock_guard lock(watchdog_.mutex_);
  watchdog_.library_calls_.erase(place_);
}

}  // namespace nqd::collectives

// The thread of a rank that notices what its peers cannot say: that they died, stand still, or
// failed. It beats this rank's heart on the board, polls a pidfd of every other rank of the host,
// and so learns of a death within milliseconds. Hosts tell each other of faults (relay.h), so that
// a death on one of them is known on all; a host that cannot be heard is noticed at the deadline.
//
// On a fault it sets a flag that waits look at. If the program does not come back within kGrace
// (it is stuck in a library call or a long computation), the watchdog prints the report itself,
// calls the program's last words and ends the process with exit code 4. Open MPI's mpirun sends
// survivors SIGTERM 1 s after a death, and SIGKILL as soon as one of them then ends: the report
// must be out before.
//
// SIGTERM is held back: once a fault is being reported it is ignored for kTerminateAfterFault;
// without one, it ends the process after kTerminateWait in which a peer's death may still show.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "collectives/host_map.h"
#include "collectives/liveness/board.h"
#include "collectives/liveness/relay.h"
#include "collectives/stage.h"

namespace nqd::collectives {

class Watchdog {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kTick{50};
  // A tick that took longer: this process was stopped, and knows nothing of that time. mpirun
  // continues a stopped rank before it ends it, and that rank must not name those that named it.
  static constexpr std::chrono::milliseconds kStoppedFor{1000};
  static constexpr std::chrono::milliseconds kGrace{300};
  static constexpr std::chrono::milliseconds kLeaveWithin{900};
  static constexpr std::chrono::milliseconds kTerminateAfterFault{2000};
  static constexpr std::chrono::milliseconds kTerminateWait{300};
  // How often hosts say that they live, and how long a fault is repeated to the others.
  static constexpr std::chrono::milliseconds kAliveEvery{1000};
  static constexpr std::chrono::milliseconds kRelayFor{1000};
  // Nobody leaves earlier after a fault where there are several hosts: mpirun stops forwarding what
  // ranks of other hosts print when the first rank ends.
  static constexpr std::chrono::milliseconds kStayFor{300};
  // A wait that cannot tell who is at fault goes on for so long: until a rank of another host that
  // stopped just before the deadline has been silent for long enough to be noticed, or is named by
  // those beside it. One whose direct peers are all on this host, and wait too, lets those speak
  // first that wait for another host.
  static constexpr std::chrono::milliseconds kNewsWait{2600};
  static constexpr std::chrono::milliseconds kSpeakLater{500};

  // `hosts` by world rank. Every slot of the board must have been entered. `last_words` is what
  // WorldOptions says of it. `relay`, with its peers, where there are several hosts.
  Watchdog(std::unique_ptr<Board> board, std::uint32_t own_slot, std::vector<std::string> hosts,
           std::function<void(const Error&)> last_words = {},
           std::unique_ptr<Relay> relay = nullptr);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // Whether the world has failed. Cheap: a wait asks at every poll.
  bool faulted();
  // Whether a wait must give up: faulted, and for long enough (stage.h, kSettle).
  bool must_stop_waiting();
  // Throws the fault. Only when faulted().
  [[noreturn]] void raise() const;
  // Makes `fault` the world's, unless there is one already; then raise() throws that one.
  void fail(const Fault& fault);
  // As fail, for a wait that passed its deadline in `stage` of the group `group` (world ranks).
  void fail_timeout(const Stage& stage, double waited_s, const std::vector<int>& group,
                    const std::vector<int>& pending);
  // Makes it the world's fault that its ranks live but come no further: `what`, and where each rank
  // of this host is. False where this process has no watchdog.
  static bool fail_stalled(const std::string& what);
  // Runs `body`. What it throws is shown to the peers, unless they know of a fault already, and
  // rethrown.
  void guard(const std::function<void()>& body);
  // Whether every rank of this host has come to kBodyEnded.
  bool all_ended() const;
  // For a wait without a deadline of its own: fails the world when a peer of this host, whose
  // process lives, or a rank of another host that was heard before, has shown no sign of life for
  // `deadline`.
  void fail_silent(std::chrono::milliseconds deadline);
  // For a caller that found the memory of a peer gone: throws the fault that explains it, if one
  // shows within a few ticks.
  void raise_if_faulted_soon();
  // The program has the error of the fault in hand; the watchdog need not end the process.
  void acknowledge();
  // For abort_process: the report is out. Returns when every survivor of this host has said the
  // same, or kLeaveWithin after the fault. Does nothing without a watchdog or a fault.
  static void leave_together();

  void publish(const Stage& stage) { board_->set_stage(own_slot_, stage); }
  void set_state(RankState state) { board_->set_state(own_slot_, state); }
  const std::string& host(int world_rank) const {
    return hosts_[static_cast<std::size_t>(world_rank)];
  }
  // How often a wait for another rank of this host looks before it gives its core away: 0 where
  // the CPUs that its ranks may use leave no CPU for each.
  int spins() const;
  int own_world_rank() const { return board_->world_rank(own_slot_); }

  // Brackets a call of the library that neither looks at the fault flag nor knows a deadline.
  class LibraryCall {
   public:
    LibraryCall(Watchdog& watchdog, Stage stage, std::vector<int> group,
                std::chrono::milliseconds deadline);
    ~LibraryCall();
    LibraryCall(const LibraryCall&) = delete;
    LibraryCall& operator=(const LibraryCall&) = delete;

   private:
    friend class Watchdog;
    Watchdog& watchdog_;
    const Stage stage_;
    const std::vector<int> group_;
    Clock::time_point start_;  // mutex_ of the watchdog
    const std::chrono::milliseconds deadline_;
    std::list<LibraryCall*>::iterator place_;
  };

 private:
  void fail_own(const std::string& message);

  struct Peer {
    std::uint32_t slot = 0;
    int descriptor = -1;  // pidfd; -1 when gone or not to be had
    std::uint64_t heartbeat = 0;
    Clock::time_point last_beat;
    bool gone = false;
  };
  struct Heard {
    std::uint64_t count = 0;
    std::optional<Clock::time_point> last;
  };

  void open_peers();
  void wake() const;
  void loop();
  // Sleeps until something happens or a tick passes; handles the peers whose process ended.
  void poll_peers();
  void on_exit(const Peer& peer);
  bool all_reported() const;
  void note_heartbeats();
  // Silences and calls begin later by the time in which this process was stopped.
  void discount(Clock::duration stopped);
  void check_library_calls();
  void talk_to_hosts();
  void hear_hosts();
  // The ranks of other hosts that were heard, but not for so long.
  std::vector<int> unheard_ranks(double silence_s) const;
  std::vector<PeerStatus> others_of(const std::vector<int>& group) const;
  std::chrono::milliseconds news_wait(const std::vector<int>& pending) const;
  void await_news(const Stage& stage, const std::vector<int>& group,
                  std::chrono::milliseconds longest);
  void check_grace();
  void check_termination();
  std::string lost_message(std::uint32_t slot) const;
  PeerStatus status(int world_rank) const;

  const std::unique_ptr<Board> board_;
  const std::uint32_t own_slot_;
  const std::vector<std::string> hosts_;
  const HostMap host_map_;
  const std::function<void(const Error&)> last_words_;
  const std::unique_ptr<Relay> relay_;
  int wake_ = -1;  // eventfd: stop, SIGTERM, or a fault to relay

  std::atomic<bool> faulted_{false};
  std::atomic<bool> acknowledged_{false};
  std::atomic<bool> stopping_{false};

  mutable std::mutex mutex_;
  std::vector<Peer> peers_;                          // descriptors: the thread alone; beats: mutex_
  std::optional<Fault> fault_;                       // mutex_; constant once faulted_
  Clock::time_point fault_time_;                     // mutex_
  Clock::time_point looked_;                         // mutex_; the silences are known up to here
  std::list<LibraryCall*> library_calls_;            // mutex_
  std::vector<Heard> heard_;                         // mutex_; by world rank, of other hosts
  std::optional<Clock::time_point> alive_time_;      // the thread alone
  std::optional<Clock::time_point> terminate_time_;  // the thread alone

  std::thread thread_;
};

}  // namespace nqd::collectives

// The board and the watchdog, with child processes as peers.
#include <doctest/doctest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "collectives/communicator.h"
#include "collectives/liveness/board.h"
#include "collectives/liveness/watchdog.h"

namespace nqd::collectives {
namespace {

using Clock = std::chrono::steady_clock;

// A process that attaches to the board as world rank 1, slot 1, and waits to be killed.
class PeerProcess {
 public:
  explicit PeerProcess(const Board::Address& address) {
    pid_ = ::fork();
    if (pid_ != 0) return;
    const auto board = Board::attach(address);
    if (!board) ::_exit(9);
    board->set_stage(1, {"dp", Collective::kAllReduce, 41, 2, true});
    board->enter(1, 1);
    for (;;) ::pause();
  }
  ~PeerProcess() { strike(SIGKILL); }

  void wait_entered(const Board& board) const {
    while (board.pid(1) != pid_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  void strike(int number) {
    if (pid_ <= 0) return;
    ::kill(pid_, number);
    if (number != SIGKILL) return;
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
};

bool becomes(const std::function<bool()>& condition, std::chrono::milliseconds within) {
  const auto end = Clock::now() + within;
  while (Clock::now() < end) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return condition();
}

TEST_CASE("what a rank writes on the board is what others read") {
  const auto board = Board::create(3, 18);
  const auto other = Board::attach(board->address());
  REQUIRE(other);
  board->enter(2, 17);
  board->set_stage(2, {"a group with a name that is too long", Collective::kBroadcast, 7, 3, true});
  CHECK(other->world_rank(2) == 17);
  CHECK(other->pid(2) == ::getpid());
  const Stage stage = other->stage(2);
  CHECK(stage.group == "a group with a name that is too");
  CHECK(stage.collective == Collective::kBroadcast);
  CHECK(stage.sequence == 7);
  CHECK(stage.step == 3);
  CHECK(stage.active);
  board->beat(2);
  CHECK(other->heartbeat(2) == 1);
  CHECK(other->stage(0).group.empty());
  board->hear(17);
  board->hear(17);
  CHECK(other->heard(17) == 2);
  CHECK(other->heard(16) == 0);
}

TEST_CASE("the first fault stays") {
  const auto board = Board::create(1, 1);
  const auto other = Board::attach(board->address());
  CHECK_FALSE(other->fault());
  board->record_fault({Fault::Kind::kTimeout, {4, 2}, "node7", std::string(5000, 'x')});
  other->record_fault({Fault::Kind::kPeerLost, {1}, "node1", "later"});
  const auto fault = other->fault();
  REQUIRE(fault);
  CHECK(fault->kind == Fault::Kind::kTimeout);
  CHECK(fault->ranks == std::vector<int>{4, 2});
  CHECK(fault->host == "node7");
  CHECK(fault->message == std::string(2047, 'x'));
}

TEST_CASE("an address that leads to no board is refused") {
  const auto board = Board::create(1, 1);
  Board::Address address = board->address();
  ++address.nonce;
  CHECK_FALSE(Board::attach(address));
  address = board->address();
  address.descriptor = 0;  // another file of this process
  CHECK_FALSE(Board::attach(address));
  address = board->address();
  board->close_descriptor();
  CHECK_FALSE(Board::attach(address));
}

TEST_CASE("a peer that dies is named, and a wait would learn of it at once") {
  auto board = Board::create(2, 2);
  board->enter(0, 0);
  PeerProcess peer(board->address());
  peer.wait_entered(*board);
  const std::string pid = std::to_string(peer.pid());
  Watchdog watchdog(std::move(board), 0, {"here", "there"});
  CHECK_FALSE(becomes([&] { return watchdog.faulted(); }, std::chrono::milliseconds(120)));
  const auto start = Clock::now();
  peer.strike(SIGKILL);
  REQUIRE(becomes([&] { return watchdog.must_stop_waiting(); }, std::chrono::milliseconds(900)));
  MESSAGE("detected after ", std::chrono::duration<double>(Clock::now() - start).count(), " s");
  watchdog.acknowledge();
  try {
    watchdog.raise();
  } catch (const PeerLostError& error) {
    CHECK(error.lost_rank() == 1);
    CHECK(error.host() == "there");
    CHECK(std::string(error.what()) == "rank 1 on host there was lost: its process (pid " + pid +
                                           ") ended in all_reduce #41 of group dp, step 2");
  }
}

TEST_CASE("a peer that has finished may die") {
  auto board = Board::create(2, 2);
  board->enter(0, 0);
  PeerProcess peer(board->address());
  peer.wait_entered(*board);
  board->set_state(1, RankState::kFinished);
  Watchdog watchdog(std::move(board), 0, {"here", "there"});
  peer.strike(SIGKILL);
  CHECK_FALSE(becomes([&] { return watchdog.faulted(); }, std::chrono::milliseconds(200)));
}

TEST_CASE("a heartbeat that stands still is named by a late wait, and only then") {
  auto board = Board::create(2, 2);
  board->enter(0, 0);
  PeerProcess peer(board->address());  // it never beats
  peer.wait_entered(*board);
  Watchdog watchdog(std::move(board), 0, {"here", "there"});
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));
  CHECK_FALSE(watchdog.faulted());
  watchdog.fail_timeout({"dp", Collective::kAllReduce, 41, 0, true}, 1.2, {0, 1}, {1});
  REQUIRE(watchdog.must_stop_waiting());
  watchdog.acknowledge();
  try {
    watchdog.raise();
  } catch (const TimeoutError& error) {
    CHECK(error.waiting_for() == std::vector<int>{1});
    CHECK(std::string(error.what()).find("rank 1 on host there: no heartbeat for 1.") !=
          std::string::npos);
  }
}

TEST_CASE("waits spin where the ranks of a host can have a CPU each") {
  cpu_set_t all;
  REQUIRE(::sched_getaffinity(0, sizeof all, &all) == 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = 0; CPU_COUNT(&one) == 0; ++cpu) {
    if (CPU_ISSET(cpu, &all)) CPU_SET(cpu, &one);
  }
  const auto spins = [](const cpu_set_t& first, const cpu_set_t& second) {
    auto board = Board::create(2, 2);
    REQUIRE(::sched_setaffinity(0, sizeof first, &first) == 0);
    board->enter(0, 0);
    REQUIRE(::sched_setaffinity(0, sizeof second, &second) == 0);
    board->enter(1, 1);
    return Watchdog(std::move(board), 0, {"here", "here"}).spins();
  };
  CHECK(spins(one, one) == 0);
  const int with_all = spins(one, all);
  ::sched_setaffinity(0, sizeof all, &all);
  CHECK((with_all > 0) == (read_host_info().usable_cpus >= 2));
}

TEST_CASE("a wait goes on for a moment after a peer reported a failure of its own") {
  auto board = Board::create(1, 1);
  board->enter(0, 0);
  Watchdog watchdog(std::move(board), 0, {"here"});
  watchdog.fail({Fault::Kind::kPeerFailed, {0}, "here", "rank 0 (host here) failed: x"});
  watchdog.acknowledge();
  CHECK(watchdog.faulted());
  CHECK_FALSE(watchdog.must_stop_waiting());
  CHECK(becomes([&] { return watchdog.must_stop_waiting(); }, std::chrono::milliseconds(900)));
  CHECK_THROWS_AS(watchdog.raise(), PeerLostError);
}

}  // namespace
}  // namespace nqd::collectives

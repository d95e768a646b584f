// A process that was stopped, and wakes to find that it was given up.
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "collectives/communicator.h"
#include "collectives/liveness/board.h"
#include "collectives/liveness/relay.h"
#include "collectives/liveness/watchdog.h"

namespace nqd::collectives {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kStopped{2900};  // longer than a host may be silent

// Rank 1, alone on its host. Waits for rank 0 until it was stopped, and gives up at once then.
// Returns 0 where it names itself, as it was told.
int wait_until_stopped(int port_to) {
  auto relay = std::make_unique<Relay>(9, 1);
  const std::uint16_t port = relay->address().port;
  auto board = Board::create(1, 2);
  board->enter(0, 1);
  const auto shown = Board::attach(board->address());
  Watchdog watchdog(std::move(board), 0, {"alpha", "beta"}, {}, std::move(relay));
  if (!shown || ::write(port_to, &port, sizeof port) != sizeof port) return 2;
  while (shown->heard(0) == 0) std::this_thread::sleep_for(milliseconds(1));
  std::this_thread::sleep_for(2 * Watchdog::kTick);
  auto before = Clock::now();
  if (::write(port_to, &port, sizeof port) != sizeof port) return 2;
  for (auto now = Clock::now(); now - before < kStopped / 2; now = Clock::now()) {
    before = now;
    std::this_thread::sleep_for(milliseconds(1));
  }
  watchdog.fail_timeout({"world", Collective::kAllReduce, 1, 0, true}, 2.0, {0, 1}, {0});
  watchdog.acknowledge();
  try {
    watchdog.raise();
  } catch (const TimeoutError& error) {
    return error.waiting_for() == std::vector<int>{1} ? 0 : 1;
  }
}

TEST_CASE("a process that was stopped believes those that gave it up, and blames none of them") {
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) ::_exit(wait_until_stopped(ends[1]));
  Relay rank0(9, 0);
  std::uint16_t port = 0;
  REQUIRE(::read(ends[0], &port, sizeof port) == sizeof port);
  rank0.add_peer({{htonl(INADDR_LOOPBACK)}, port});
  rank0.send_alive();
  REQUIRE(::read(ends[0], &port, sizeof port) == sizeof port);
  int status = 0;
  ::kill(child, SIGSTOP);
  REQUIRE(::waitpid(child, &status, WUNTRACED) == child);
  rank0.send({Fault::Kind::kTimeout, {1}, "beta", "rank 1 stands still"});
  std::this_thread::sleep_for(kStopped);
  ::kill(child, SIGCONT);
  CHECK(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  for (const int end : ends) ::close(end);
}

}  // namespace
}  // namespace nqd::collectives

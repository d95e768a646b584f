// What hosts tell each other, over the loopback interface.
#include "collectives/liveness/relay.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <poll.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "collectives/communicator.h"
#include "collectives/liveness/board.h"
#include "collectives/liveness/watchdog.h"

namespace nqd::collectives {
namespace {

Relay::Address loopback(const Relay& relay) {
  return {{htonl(INADDR_LOOPBACK)}, relay.address().port};
}

std::optional<Relay::News> next(const Relay& relay) {
  pollfd wait{relay.descriptor(), POLLIN, 0};
  ::poll(&wait, 1, 5000);
  return relay.receive();
}

Fault lost(const std::string& message) { return {Fault::Kind::kPeerLost, {3, 1}, "beta", message}; }

TEST_CASE("a fault and a sign of life arrive as they were sent") {
  const Relay here(7, 0);
  Relay there(7, 5);
  there.add_peer(loopback(here));
  there.send_alive();
  const auto alive = next(here);
  REQUIRE(alive);
  CHECK(alive->rank == 5);
  CHECK_FALSE(alive->fault);
  there.send(lost("rank 3 is gone"));
  const auto news = next(here);
  REQUIRE(news);
  REQUIRE(news->fault);
  CHECK(news->fault->kind == Fault::Kind::kPeerLost);
  CHECK(news->fault->ranks == std::vector<int>{3, 1});
  CHECK(news->fault->host == "beta");
  CHECK(news->fault->message == "rank 3 is gone");
  CHECK_FALSE(here.receive());
}

TEST_CASE("another job, a stranger's packet and a text that is too long do no harm") {
  const Relay here(7, 0);
  Relay other_job(8, 1);
  other_job.add_peer(loopback(here));
  other_job.send(lost("not ours"));
  Relay there(7, 1);
  there.add_peer(loopback(here));
  there.send(lost(std::string(5000, 'x')));
  const auto news = next(here);
  REQUIRE(news);
  CHECK(news->fault->message.size() < 1000);
  CHECK(news->fault->message.size() > 800);
  CHECK_FALSE(here.receive());
}

TEST_CASE("a watchdog tells of its fault, and believes what it is told") {
  for (const bool starts_here : {true, false}) {
    Relay elsewhere(9, 1);
    auto relay = std::make_unique<Relay>(9, 0);
    elsewhere.add_peer(loopback(*relay));
    relay->add_peer(loopback(elsewhere));
    auto board = Board::create(1, 3);
    board->enter(0, 0);
    Watchdog watchdog(std::move(board), 0, {"alpha", "beta"}, {}, std::move(relay));
    watchdog.publish({"world", Collective::kAllReduce, 1, 0, true});
    if (starts_here) {
      watchdog.fail(lost("told"));
      std::optional<Relay::News> news;
      for (int i = 0; i < 100 && (!news || !news->fault); ++i) news = next(elsewhere);
      REQUIRE(news);
      REQUIRE(news->fault);
      CHECK(news->fault->message == "told");
    } else {
      CHECK_FALSE(watchdog.faulted());
      elsewhere.send(lost("heard"));
      for (int i = 0; i < 5000 && !watchdog.faulted(); ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      REQUIRE(watchdog.faulted());
      CHECK_THROWS_WITH_AS(watchdog.raise(), "heard", PeerLostError);
    }
    watchdog.acknowledge();
  }
}

TEST_CASE("who cannot tell who is at fault asks elsewhere before it blames its own peer") {
  Relay elsewhere(9, 1);
  auto relay = std::make_unique<Relay>(9, 0);
  elsewhere.add_peer(loopback(*relay));
  auto board = Board::create(1, 3);
  board->enter(0, 0);
  Watchdog watchdog(std::move(board), 0, {"alpha", "beta", "beta"}, {}, std::move(relay));
  const std::jthread teller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    elsewhere.send({Fault::Kind::kTimeout, {2}, "beta", "rank 2 stands still"});
  });
  watchdog.fail_timeout({"world", Collective::kAllReduce, 1, 0, true}, 1.0, {0, 1, 2}, {1});
  CHECK_THROWS_WITH_AS(watchdog.raise(), "rank 2 stands still", TimeoutError);
  watchdog.acknowledge();
}

TEST_CASE("who waits for a rank that waits too blames the silent one of another host") {
  // Rank 0 waits for rank 1, and that for rank 2, which alone is on its host and whom rank 1 alone
  // has heard.
  auto board = Board::create(2, 3);
  auto beside = Board::attach(board->address());
  REQUIRE(beside);
  const Stage call{"world", Collective::kAllReduce, 1, 0, true};
  board->enter(0, 0);
  beside->enter(1, 1);
  beside->set_stage(1, call);
  beside->hear(2);
  Watchdog watchdog(std::move(board), 0, {"alpha", "alpha", "beta"}, {},
                    std::make_unique<Relay>(9, 0));
  const std::jthread heart([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      beside->beat(1);
      std::this_thread::sleep_for(Watchdog::kTick);
    }
  });
  watchdog.fail_timeout(call, 1.0, {0, 1, 2}, {1});
  watchdog.acknowledge();
  try {
    watchdog.raise();
  } catch (const TimeoutError& error) {
    CHECK(error.waiting_for() == std::vector<int>{2, 1});
    CHECK(std::string(error.what())
              .starts_with("all_reduce #1 of group world waited 1.0 s for rank 2 on host beta: no "
                           "answer, and its host has not been heard for 2.5 s"));
  }
}

}  // namespace
}  // namespace nqd::collectives

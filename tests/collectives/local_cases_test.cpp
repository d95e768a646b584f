// The shared cases on threads.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "collectives/local/local_transport.h"
#include "collectives/world.h"
#include "tests/cases/collectives_cases.h"

namespace nqd::collectives {
namespace {

// A sanitizer makes many threads on few cores crawl, and finds in 5 what it finds in 16.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::array kRanks = {1, 2, 3, 5};
#else
constexpr std::array kRanks = {1, 2, 3, 4, 5, 7, 8, 16};
#endif

TEST_CASE("every case on 1 to 16 threads") {
  for (const int ranks : kRanks) {
    CAPTURE(ranks);
    std::mutex mutex;
    std::vector<CaseReport> reports;
    run_threads(ranks, {}, [&](Communicator& world) {
      CaseReport report = run_collectives_cases(world);
      const std::lock_guard lock(mutex);
      reports.push_back(std::move(report));
    });
    REQUIRE(reports.size() == static_cast<std::size_t>(ranks));
    for (const CaseReport& report : reports) {
      CHECK(report.checks > 1000);
      for (const std::string& failure : report.failures) FAIL_CHECK(failure);
    }
  }
}

TEST_CASE("a message that arrives while another is copied is not missed") {
  constexpr std::size_t kBig = 64u << 20;
  const auto world = std::make_shared<local::LocalWorld>(3);
  std::shared_ptr<local::LocalGroup> group;
  {
    const std::lock_guard lock(world->mutex);
    group = world->make_group({0, 1, 2});
  }
  const auto transport_of = [&](int rank) {
    auto transport = std::make_unique<local::LocalTransport>(group, rank, "world");
    transport->set_deadline(std::chrono::seconds(3));
    transport->begin(Collective::kSendRecv);
    return transport;
  };
  std::byte from_1{};
  std::vector<std::byte> from_2(kBig);
  std::atomic<bool> posted = false;
  std::jthread rank_2([&] {
    const auto transport = transport_of(2);
    const std::vector<std::byte> big(kBig, std::byte{2});
    transport->send(big, 0);
    posted = true;
    transport->wait();
  });
  std::jthread rank_1([&] {
    const auto transport = transport_of(1);
    // Rank 0 takes the message out of its box and copies it, which takes milliseconds.
    for (bool copying = false; !copying; std::this_thread::yield()) {
      const std::lock_guard lock(world->mutex);
      copying = posted && group->box(2, 0).empty();
    }
    const std::byte one{1};
    transport->send(std::span(&one, 1), 0);
    transport->wait();
  });
  const auto transport = transport_of(0);
  transport->receive(std::span(&from_1, 1), 1);
  transport->receive(from_2, 2);
  const auto start = std::chrono::steady_clock::now();
  CHECK_NOTHROW(transport->wait());
  // A wait that slept through it would look again at its deadline, and find it.
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(2));
  CHECK(from_1 == std::byte{1});
  CHECK(from_2.back() == std::byte{2});
}

}  // namespace
}  // namespace nqd::collectives

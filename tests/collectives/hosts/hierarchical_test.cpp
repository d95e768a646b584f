// Collectives among ranks of several hosts, on threads.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "collectives/host_map.h"
#include "collectives/simulation/simulation.h"
#include "collectives/world.h"
#include "tests/cases/collectives_cases.h"

namespace nqd::collectives {
namespace {

// One letter a rank: its host.
WorldOptions on_hosts(const std::string& letters) {
  WorldOptions options;
  for (const char letter : letters) options.pretended_hosts.emplace_back(1, letter);
  return options;
}

TEST_CASE("every case on several hosts, in any order and of any size") {
  for (const std::string letters : {"ab", "aabb", "abab", "abaab", "aaab", "abc"}) {
    CAPTURE(letters);
    std::mutex mutex;
    std::vector<CaseReport> reports;
    run_threads(static_cast<int>(letters.size()), on_hosts(letters), [&](Communicator& world) {
      CHECK(world.host(0) == letters.substr(0, 1));
      CaseReport report = run_collectives_cases(world);
      const std::lock_guard lock(mutex);
      reports.push_back(std::move(report));
    });
    REQUIRE(reports.size() == letters.size());
    for (const CaseReport& report : reports) {
      CHECK(report.checks > 1000);
      for (const std::string& failure : report.failures) FAIL_CHECK(failure);
    }
  }
}

TEST_CASE("the messages between hosts are those of one place, and no more than promised") {
  SimulationOptions options;
  options.algorithm = Algorithm::kHierarchical;
  for (const std::size_t per_node : {1u, 2u, 3u, 4u, 6u}) {
    options.ranks = 6;
    options.ranks_per_node = per_node;
    options.elements = 30;
    CAPTURE(per_node);
    const HostMap map(simulated_hosts(options.ranks, per_node));
    const Simulation simulation = simulate(options);
    std::vector<RankTraffic> sent(options.ranks);
    std::size_t crossing = 0;
    for (const SimulatedMessage& message : simulation.messages) {
      ++sent[message.from].messages;
      sent[message.from].bytes_sent += message.values.size() * sizeof(double);
      if (map.host_of(message.from) == map.host_of(message.to)) continue;
      CHECK(map.place_of(message.from) == map.place_of(message.to));
      CHECK(map.place_of(message.from) < map.shared_places());
      crossing += message.values.size();
    }
    // Each host sends 2(k-1)/k of the vector.
    CHECK(crossing == 2 * (map.hosts() - 1) * options.elements);
    for (std::size_t rank = 0; rank < options.ranks; ++rank) {
      const RankTraffic expected =
          rank_traffic(map, Collective::kAllReduce, Algorithm::kHierarchical, rank,
                       options.elements, sizeof(double));
      CHECK(sent[rank].messages == expected.messages);
      CHECK(sent[rank].bytes_sent == expected.bytes_sent);
      for (const double value : simulation.values.back()[rank]) CHECK(value == 21);
    }
  }
}

TEST_CASE("a group inside one host is direct, one across hosts is not") {
  run_threads(4, on_hosts("abab"), [](Communicator& world) {
    const auto inside = world.split(world.rank() % 2, 0, "inside");
    const auto across = world.split(world.rank() / 2, 0, "across");
    CHECK(inside->chosen(Collective::kAllReduce, Algorithm::kAuto) == Algorithm::kDirect);
    CHECK(across->chosen(Collective::kAllReduce, Algorithm::kAuto) == Algorithm::kRing);
    CHECK(world.chosen(Collective::kReduceScatter, Algorithm::kAuto) == Algorithm::kHierarchical);
    CHECK(world.chosen(Collective::kBroadcast, Algorithm::kAuto) == Algorithm::kTree);
    CHECK(world.chosen(Collective::kAllReduce, Algorithm::kAuto) == Algorithm::kHierarchical);
    float value = 1;
    const auto bytes = std::as_writable_bytes(std::span(&value, 1));
    inside->all_reduce(bytes, bytes, DType::kFloat32, ReduceOp::kSum);
    across->all_reduce(bytes, bytes, DType::kFloat32, ReduceOp::kSum);
    CHECK(value == 4);
  });
}

TEST_CASE("a rank that is missing in either level is named by the deadline") {
  // Rank 3 stays away: its host's rank waits for it inside, the other host across.
  for (const int missing : {0, 3}) {
    WorldOptions options = on_hosts("aabb");
    options.deadline = std::chrono::milliseconds(300);
    std::atomic<int> named = 0;
    const auto start = std::chrono::steady_clock::now();
    try {
      run_threads(4, options, [&](Communicator& world) {
        if (world.rank() == missing) {
          std::this_thread::sleep_for(std::chrono::milliseconds(800));
          return;
        }
        std::vector<float> data(1000, 1);
        const auto bytes = std::as_writable_bytes(std::span(data));
        try {
          world.all_reduce(bytes, bytes, DType::kFloat32, ReduceOp::kSum);
        } catch (const TimeoutError& error) {
          const std::string text = error.what();
          const bool right = error.waiting_for().front() == missing &&
                             text.find("all_reduce #1 of group world") != std::string::npos;
          named += right ? 1 : 0;
          throw;
        }
      });
    } catch (const Error& error) {
      CHECK(error.code() == "NQD4002");
    }
    CHECK(named == 3);
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(5));
  }
}

}  // namespace
}  // namespace nqd::collectives

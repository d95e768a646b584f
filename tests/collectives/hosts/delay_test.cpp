// Which algorithm wins where hosts are joined by slow cables: on modelled time.
#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "collectives/dispatch.h"
#include "collectives/local/local_transport.h"
#include "tests/collectives/hosts/delayed_transport.h"

namespace nqd::collectives {
namespace {

constexpr std::size_t kElements = 1 << 20;
constexpr double kBytes = 4.0 * kElements;
// 1 Gbit/s with 100 µs between hosts, 10 GB/s with 1 µs inside.
constexpr Link kInside{1e-6, 1e-10};
constexpr Link kAcross{1e-4, 8e-9};

struct Outcome {
  double time_s = 0;  // of the last rank
  double bytes_from_first_host = 0;
};

// One all_reduce of kElements floats; a letter a rank is its host.
Outcome all_reduce_on(const std::string& letters, Algorithm algorithm) {
  const auto ranks = static_cast<int>(letters.size());
  std::vector<std::string> hosts;
  for (const char letter : letters) hosts.emplace_back(1, letter);
  const auto world = std::make_shared<local::LocalWorld>(ranks, hosts);
  std::vector<int> all(letters.size());
  std::iota(all.begin(), all.end(), 0);
  std::shared_ptr<local::LocalGroup> group;
  {
    const std::lock_guard lock(world->mutex);
    group = world->make_group(all);
  }
  ModelledNetwork network(kInside, kAcross);
  std::vector<double> times_s(letters.size());
  std::vector<std::jthread> threads;
  for (const int rank : all) {
    threads.emplace_back([&, rank] {
      DelayedTransport transport(std::make_unique<local::LocalTransport>(group, rank, "world"),
                                 network);
      Scratch scratch;
      std::vector<float> data(kElements, static_cast<float>(rank));
      const auto bytes = std::as_writable_bytes(std::span(data));
      run_collective(transport, scratch,
                     {Collective::kAllReduce, bytes, bytes, DType::kFloat32, ReduceOp::kSum},
                     algorithm);
      CHECK(data.back() == static_cast<float>(ranks * (ranks - 1) / 2));
      times_s[static_cast<std::size_t>(rank)] = transport.now_s();
    });
  }
  threads.clear();
  return {*std::max_element(times_s.begin(), times_s.end()),
          static_cast<double>(network.bytes_across(hosts.front()))};
}

TEST_CASE("the clock adds up: one ring step after another") {
  // Two hosts of one rank: each of the two steps is half the vector and one latency, or a few where
  // the ring sends its chunk in pieces.
  const Outcome ring = all_reduce_on("ab", Algorithm::kRing);
  const double promised_s = time_s(Collective::kAllReduce, Algorithm::kRing, 2, kBytes, kAcross);
  CHECK(ring.time_s > 0.999 * promised_s);
  CHECK(ring.time_s < 1.1 * promised_s);
  CHECK(ring.bytes_from_first_host == kBytes);
}

TEST_CASE("hierarchical sends 2(k-1)/k of the vector from a host, in any order of ranks") {
  for (const std::string letters : {"aabb", "abab", "aaabbb"}) {
    CHECK(all_reduce_on(letters, Algorithm::kHierarchical).bytes_from_first_host == kBytes);
  }
  CHECK(all_reduce_on("aabbcc", Algorithm::kHierarchical).bytes_from_first_host ==
        doctest::Approx(kBytes * 4 / 3));
  // The ring leaves a host once, or from every rank.
  CHECK(all_reduce_on("aabb", Algorithm::kRing).bytes_from_first_host == kBytes * 1.5);
  CHECK(all_reduce_on("abab", Algorithm::kRing).bytes_from_first_host == kBytes * 3);
}

TEST_CASE("with slow cables hierarchical is faster than the flat algorithms") {
  const double least_s = kBytes * kAcross.beta_s_per_byte;
  for (const std::string letters : {"aabb", "abab"}) {
    CAPTURE(letters);
    const double hierarchical_s = all_reduce_on(letters, Algorithm::kHierarchical).time_s;
    // The cable is never idle but for what is inside the hosts and the latencies.
    CHECK(hierarchical_s >= least_s);
    CHECK(hierarchical_s < 1.2 * least_s);
    for (const Algorithm flat : {Algorithm::kRing, Algorithm::kTree, Algorithm::kRecursiveDoubling,
                                 Algorithm::kHalvingDoubling}) {
      CAPTURE(name(flat));
      // Its first exchanges are those of neighbours: with two in order a host it has two levels
      // too.
      if (flat == Algorithm::kHalvingDoubling && letters == "aabb") continue;
      CHECK(all_reduce_on(letters, flat).time_s > 1.3 * hierarchical_s);
    }
  }
}

}  // namespace
}  // namespace nqd::collectives

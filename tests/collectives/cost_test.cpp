#include "collectives/cost.h"

#include <doctest/doctest.h>

#include <numeric>

#include "base/error.h"

namespace nqd::collectives {
namespace {

constexpr std::uint64_t kGB = 1'000'000'000;

TEST_CASE("ring all_reduce of 1 GB over 8 ranks sends 1.75 GB a rank") {
  for (std::size_t rank = 0; rank < 8; ++rank) {
    const RankTraffic t =
        rank_traffic(Collective::kAllReduce, Algorithm::kRing, 8, rank, kGB / 4, 4);
    CHECK(t.bytes_sent == 1'750'000'000);
    CHECK(t.messages == 14);
  }
}

TEST_CASE("ring traffic of lengths that do not divide, by hand") {
  // 10 elements over 4 ranks: chunks 3 3 2 2. Rank 1 owns chunk 2, so it leaves out 2, then 3.
  const auto sent = [](std::size_t rank) {
    return rank_traffic(Collective::kAllReduce, Algorithm::kRing, 4, rank, 10, 1).bytes_sent;
  };
  CHECK(sent(0) == 20 - 3 - 2);
  CHECK(sent(1) == 20 - 2 - 2);
  CHECK(sent(2) == 20 - 2 - 3);
  CHECK(sent(3) == 20 - 3 - 3);
  // 2 elements over 4 ranks: chunks 1 1 0 0; an empty chunk is no message.
  const RankTraffic few = rank_traffic(Collective::kAllReduce, Algorithm::kRing, 4, 0, 2, 8);
  CHECK(few.messages == 1 + 2);
  CHECK(few.bytes_sent == 24);
}

TEST_CASE("what all ranks send together is what the definition of the collective needs") {
  for (std::size_t n = 1; n <= 9; ++n) {
    for (const std::size_t count : {0u, 1u, 7u, 1000u}) {
      std::uint64_t reduce = 0, gather = 0, scatter = 0, tree = 0, cast = 0;
      for (std::size_t r = 0; r < n; ++r) {
        const auto bytes = [&](Collective c, Algorithm a) {
          return rank_traffic(c, a, n, r, count, 1).bytes_sent;
        };
        reduce += bytes(Collective::kAllReduce, Algorithm::kRing);
        gather += bytes(Collective::kAllGather, Algorithm::kAuto);
        scatter += bytes(Collective::kReduceScatter, Algorithm::kRing);
        tree += bytes(Collective::kAllReduce, Algorithm::kTree);
        cast += bytes(Collective::kBroadcast, Algorithm::kTree);
      }
      CHECK(gather == (n - 1) * count);
      CHECK(scatter == (n - 1) * count);
      CHECK(reduce == 2 * (n - 1) * count);
      CHECK(cast == (n - 1) * count);
      CHECK(tree == 2 * (n - 1) * count);
    }
  }
}

TEST_CASE("steps") {
  CHECK(steps(Collective::kAllReduce, Algorithm::kRing, 8) == 14);
  CHECK(steps(Collective::kAllReduce, Algorithm::kTree, 8) == 6);
  CHECK(steps(Collective::kAllReduce, Algorithm::kTree, 5) == 6);
  CHECK(steps(Collective::kReduceScatter, Algorithm::kAuto, 5) == 4);
  CHECK(steps(Collective::kBroadcast, Algorithm::kAuto, 9) == 4);
  CHECK(steps(Collective::kBarrier, Algorithm::kAuto, 2) == 1);
  for (const Collective c : {Collective::kAllReduce, Collective::kAllGather, Collective::kBroadcast,
                             Collective::kSendRecv}) {
    CHECK(steps(c, Algorithm::kAuto, 1) == 0);
  }
}

TEST_CASE("time under alpha-beta") {
  const Link link{1e-6, 1e-10};
  CHECK(time_s(Collective::kAllReduce, Algorithm::kRing, 8, 1e9, link) ==
        doctest::Approx(14e-6 + 1.75 * 0.1).epsilon(1e-12));
  CHECK(time_s(Collective::kAllReduce, Algorithm::kTree, 8, 1e6, link) ==
        doctest::Approx(6 * (1e-6 + 1e-4)).epsilon(1e-12));
  CHECK(time_s(Collective::kAllGather, Algorithm::kRing, 4, 4e6, link) ==
        doctest::Approx(3e-6 + 3e6 * 1e-10).epsilon(1e-12));
  CHECK(time_s(Collective::kBarrier, Algorithm::kAuto, 8, 1e9, link) ==
        doctest::Approx(3e-6).epsilon(1e-12));
  CHECK(time_s(Collective::kSendRecv, Algorithm::kAuto, 2, 1e6, link) ==
        doctest::Approx(1e-6 + 1e-4).epsilon(1e-12));
  CHECK(time_s(Collective::kAllReduce, Algorithm::kRing, 1, 1e9, link) == 0);
}

TEST_CASE("bus factors") {
  CHECK(bus_factor(Collective::kAllReduce, 1) == 0);
  CHECK(bus_factor(Collective::kAllReduce, 2) == 1);
  CHECK(bus_factor(Collective::kAllReduce, 8) == 1.75);
  CHECK(bus_factor(Collective::kAllGather, 3) == doctest::Approx(2.0 / 3).epsilon(1e-15));
  CHECK(bus_factor(Collective::kReduceScatter, 8) == 0.875);
  CHECK(bus_factor(Collective::kBroadcast, 8) == 1);
}

TEST_CASE("a pair without an algorithm is refused") {
  CHECK_THROWS_AS(steps(Collective::kAllReduce, Algorithm::kLibrary, 4), Error);
  CHECK_THROWS_AS(steps(Collective::kBroadcast, Algorithm::kBruck, 4), Error);
  CHECK_THROWS_AS(rank_traffic(Collective::kAllGather, Algorithm::kTree, 4, 0, 8, 4), Error);
}

}  // namespace
}  // namespace nqd::collectives

// Who shares a host, and what the two levels send there.
#include "collectives/host_map.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace nqd::collectives {
namespace {

using Hosts = std::vector<std::string>;

TEST_CASE("hosts count from their first ranks, places by rank") {
  const HostMap map(Hosts{"b", "a", "b", "c", "b"});
  CHECK(map.ranks() == 5);
  CHECK(map.hosts() == 3);
  CHECK(map.host_of(0) == 0);
  CHECK(map.host_of(1) == 1);
  CHECK(map.host_of(4) == 0);
  CHECK(map.place_of(2) == 1);
  CHECK(map.place_of(4) == 2);
  CHECK(map.members(0) == std::vector<int>{0, 2, 4});
  CHECK(map.members(2) == std::vector<int>{3});
  CHECK(map.shared_places() == 1);
  CHECK(map.has_two_levels());
}

TEST_CASE("two levels need several hosts and several ranks on one") {
  CHECK_FALSE(HostMap(Hosts{"a"}).has_two_levels());
  CHECK_FALSE(HostMap(Hosts{"a", "a"}).has_two_levels());
  CHECK_FALSE(HostMap(Hosts{"a", "b", "c"}).has_two_levels());
  CHECK(HostMap(Hosts{"a", "b", "a"}).has_two_levels());
}

TEST_CASE("on equal hosts that ranks fill in order, traffic is that of cost.h") {
  for (const std::size_t g : {1u, 2u, 3u, 4u}) {
    for (const std::size_t k : {1u, 2u, 3u}) {
      Hosts hosts;
      for (std::size_t rank = 0; rank < g * k; ++rank) hosts.push_back(std::to_string(rank / g));
      const HostMap map(hosts);
      for (const std::size_t count : {0u, 1u, 2u, 5u, 7u, 1000u}) {
        for (std::size_t rank = 0; rank < g * k; ++rank) {
          for (const Collective collective :
               {Collective::kAllReduce, Collective::kAllGather, Collective::kReduceScatter}) {
            const RankTraffic here =
                rank_traffic(map, collective, Algorithm::kHierarchical, rank, count, 4);
            const RankTraffic there =
                rank_traffic(collective, Algorithm::kHierarchical, g * k, rank, count, 4, g);
            CAPTURE(name(collective));
            CAPTURE(g);
            CAPTURE(k);
            CAPTURE(count);
            CHECK(here.messages == there.messages);
            CHECK(here.bytes_sent == there.bytes_sent);
          }
        }
      }
    }
  }
}

TEST_CASE("worked example: 12 elements on hosts of two and one, alternating") {
  // One part of 48 bytes. Rank 1 hands it to rank 0, which swaps halves of it with rank 2, twice,
  // and gives it back.
  const HostMap map(Hosts{"a", "a", "b"});
  const auto traffic = [&](std::size_t rank) {
    return rank_traffic(map, Collective::kAllReduce, Algorithm::kHierarchical, rank, 12, 4);
  };
  CHECK(traffic(0).bytes_sent == 48 + 24 + 24);
  CHECK(traffic(0).messages == 3);
  CHECK(traffic(1).bytes_sent == 48);
  CHECK(traffic(1).messages == 1);
  CHECK(traffic(2).bytes_sent == 48);
  CHECK(traffic(2).messages == 2);
  CHECK(max_traffic(map, Collective::kAllReduce, Algorithm::kHierarchical, 12, 4).bytes_sent == 96);
  // Other algorithms do not look at hosts.
  CHECK(rank_traffic(map, Collective::kAllReduce, Algorithm::kRing, 0, 12, 4).bytes_sent == 64);
}

}  // namespace
}  // namespace nqd::collectives

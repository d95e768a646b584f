#include "planner/mesh/group_cost.h"

#include <doctest/doctest.h>

#include <array>

namespace nqd::planner {
namespace {

using collectives::Algorithm;
using collectives::Collective;

// 16 ranks, 8 a node; 450 GB/s and 2 us inside, 8 adapters of 50 GB/s and 5 us between nodes.
GroupTopology two_nodes() {
  GroupTopology group;
  group.ranks = 16;
  group.ranks_per_node = 8;
  group.intra = {2e-6, 1 / 450e9};
  group.nics_per_node = 8;
  group.nic_bandwidth_bytes_per_s = 50e9;
  group.nic_alpha_s = 5e-6;
  group.rails = 8;
  return group;
}

double time(const GroupTopology& group, Algorithm algorithm, double bytes) {
  return group_time_s(group, Collective::kAllReduce, algorithm, bytes);
}

TEST_CASE("egress: adapters are shared, reached by rail, and oversubscribed") {
  GroupTopology group = two_nodes();
  CHECK(egress_bytes_per_s(group) == 400e9);
  group.concurrent_groups_per_node = 8;
  CHECK(egress_bytes_per_s(group) == 50e9);
  // One member a node, alone: one rail of eight, or all of one plane.
  group.concurrent_groups_per_node = 1;
  group.ranks_per_node = 1;
  CHECK(egress_bytes_per_s(group) == 50e9);
  group.rails = 1;
  CHECK(egress_bytes_per_s(group) == 400e9);
  group.oversubscription = 4;
  CHECK(egress_bytes_per_s(group) == 100e9);
  // A node with half an adapter for each of its groups.
  group.nics_per_node = 1;
  group.concurrent_groups_per_node = 2;
  group.oversubscription = 1;
  CHECK(egress_bytes_per_s(group) == 25e9);
}

TEST_CASE("inside one node a group costs what collectives/cost.h says") {
  GroupTopology group = two_nodes();
  group.ranks = 8;
  for (const Algorithm algorithm :
       {Algorithm::kAuto, Algorithm::kRing, Algorithm::kTree, Algorithm::kDoubleBinaryTree,
        Algorithm::kRecursiveDoubling, Algorithm::kNvls}) {
    CHECK(time(group, algorithm, 1e8) ==
          collectives::time_s(Collective::kAllReduce, algorithm, 8, 1e8, group.intra));
  }
  group.ranks = 1;
  group.ranks_per_node = 1;
  CHECK(time(group, Algorithm::kRing, 1e8) == 0);
}

TEST_CASE("two nodes, by hand") {
  const GroupTopology group = two_nodes();
  // Ring: 28 of 30 hops inside; it leaves a node once, at 400 GB/s.
  CHECK(time(group, Algorithm::kRing, 1e9) ==
        doctest::Approx(28 * 2e-6 + 2 * 5e-6 + 30.0 / 16 * 1e9 / 400e9).epsilon(1e-12));
  // Two levels: 2·7/8 of the bytes inside, then a ring of 2 on an eighth at 50 GB/s a rank.
  CHECK(time(group, Algorithm::kHierarchical, 1e9) ==
        doctest::Approx(14 * 2e-6 + 1.75 * 1e9 / 450e9 + 2 * 5e-6 + 1e9 / 8 / 50e9).epsilon(1e-12));
  CHECK(time(group, Algorithm::kNvls, 1e9) ==
        doctest::Approx(2 * 2e-6 + 1.125 * 1e9 / 450e9 + 2 * 5e-6 + 1e9 / 8 / 50e9).epsilon(1e-12));
  CHECK(time(group, Algorithm::kDoubleBinaryTree, 1e9) ==
        doctest::Approx(14 * 2e-6 + 2 * 5e-6 + 2e9 / 400e9).epsilon(1e-12));
  // Eight of 16 partners are in other nodes; 8·8/16 of the bytes leave over 400 GB/s.
  CHECK(group_time_s(group, Collective::kAllToAll, Algorithm::kPairwise, 1e9) ==
        doctest::Approx(7 * 2e-6 + 8 * 5e-6 + 8.0 * 8 / 16 * 1e9 / 400e9).epsilon(1e-12));
  CHECK(group_time_s(group, Collective::kAllGather, Algorithm::kRing, 1e9) ==
        doctest::Approx(14 * 2e-6 + 5e-6 + 15.0 / 16 * 1e9 / 400e9).epsilon(1e-12));
  CHECK(group_time_s(group, Collective::kBroadcast, Algorithm::kNvls, 1e9) ==
        doctest::Approx(2e-6 + 1e9 / 450e9 + 5e-6 + 1e9 / 400e9).epsilon(1e-12));
  // All eight members of a node may send to the other in one step.
  CHECK(time(group, Algorithm::kRecursiveDoubling, 1e9) ==
        doctest::Approx(4 * (5e-6 + 1e9 / 50e9)).epsilon(1e-12));
}

TEST_CASE("a message between nodes has what its group reaches of the adapters") {
  GroupTopology pair;
  pair.ranks = 2;
  pair.nics_per_node = 8;
  pair.rails = 8;
  pair.concurrent_groups_per_node = 8;
  pair.nic_bandwidth_bytes_per_s = 50e9;
  pair.nic_alpha_s = 5e-6;
  CHECK(group_time_s(pair, Collective::kSendRecv, Algorithm::kAuto, 1e9) ==
        doctest::Approx(5e-6 + 1e9 / 50e9).epsilon(1e-12));
}

TEST_CASE("every time grows with bytes, groups at once and oversubscription") {
  constexpr std::array kCollectives = {Collective::kAllReduce,     Collective::kAllGather,
                                       Collective::kReduceScatter, Collective::kBroadcast,
                                       Collective::kReduce,        Collective::kAllToAll};
  for (const Collective collective : kCollectives) {
    for (const Algorithm algorithm :
         {Algorithm::kRing, Algorithm::kTree, Algorithm::kDoubleBinaryTree,
          Algorithm::kRecursiveDoubling, Algorithm::kHalvingDoubling, Algorithm::kHierarchical,
          Algorithm::kNvls, Algorithm::kPairwise, Algorithm::kBruck}) {
      const GroupTopology group = two_nodes();
      CAPTURE(name(collective));
      CAPTURE(name(algorithm));
      const auto seconds = [&](const GroupTopology& topology, double bytes) {
        return group_time_s(topology, collective, algorithm, bytes);
      };
      if (!has_cost(collective, algorithm, 16, 8)) {
        CHECK(seconds(group, 1e9) == 0);
        continue;
      }
      CHECK(seconds(group, 0) > 0);
      CHECK(seconds(group, 1e9) > seconds(group, 1e8));
      GroupTopology crowded = group;
      crowded.concurrent_groups_per_node = 2;
      CHECK(seconds(crowded, 1e9) > seconds(group, 1e9));
      GroupTopology thin = group;
      thin.oversubscription = 2;
      CHECK(seconds(thin, 1e9) == doctest::Approx(seconds(crowded, 1e9)).epsilon(1e-12));
    }
  }
}

}  // namespace
}  // namespace nqd::planner

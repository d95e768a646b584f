// Exact traffic of one rank for each algorithm: the parts of rank_traffic in collectives/cost.h,
// whose contract holds here. Only collectives/cost*.cpp include this; ranks >= 2.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collectives/cost.h"

namespace nqd::collectives {

struct TrafficCall {
  std::size_t ranks = 1;
  std::size_t rank = 0;
  std::size_t count = 0;  // elements of the full vector
  std::size_t element_bytes = 1;
  std::size_t ranks_per_node = 1;

  std::uint64_t bytes() const { return count * element_bytes; }
};

constexpr RankTraffic operator+(RankTraffic a, RankTraffic b) {
  return {a.messages + b.messages, a.bytes_sent + b.bytes_sent};
}

std::uint64_t ceil_log2(std::size_t n) noexcept;

// One pass around the ring of all chunks but `skipped`.
RankTraffic ring_pass(const TrafficCall& call, std::size_t skipped);
RankTraffic ring_all_reduce_traffic(const TrafficCall& call);

// `messages` times the whole vector, nothing when it is empty.
RankTraffic whole_vectors(const TrafficCall& call, std::uint64_t messages);
// Children of the rank in the binomial tree of root 0.
std::uint64_t tree_children(std::size_t ranks, std::size_t rank) noexcept;
RankTraffic double_tree_all_reduce_traffic(const TrafficCall& call);

RankTraffic recursive_doubling_traffic(const TrafficCall& call);
RankTraffic halving_doubling_all_reduce_traffic(const TrafficCall& call);
// The doubling half alone; ranks is a power of two.
RankTraffic doubling_all_gather_traffic(const TrafficCall& call);
// The halving half alone; ranks is a power of two.
RankTraffic halving_reduce_scatter_traffic(const TrafficCall& call);

// This rank's chunk to the root, rank 0.
RankTraffic gather_traffic(const TrafficCall& call);

RankTraffic bruck_all_gather_traffic(const TrafficCall& call);
RankTraffic bruck_all_to_all_traffic(const TrafficCall& call);

// Where a rank is in a hierarchical call whose hosts may differ in size.
struct TwoLevelPlace {
  std::size_t place = 0;  // among the ranks of its host
  std::size_t here = 1;   // ranks of its host
  std::size_t host = 0;
  std::size_t hosts = 1;
};
// `call.ranks_per_node` is the number of parts: the ranks of the smallest host.
RankTraffic two_level_all_reduce_traffic(const TrafficCall& call, const TwoLevelPlace& at);
RankTraffic hierarchical_traffic(Collective collective, const TrafficCall& call);
RankTraffic direct_traffic(Collective collective, const TrafficCall& call);
RankTraffic nvls_traffic(Collective collective, const TrafficCall& call);

}  // namespace nqd::collectives

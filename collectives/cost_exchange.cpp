// Traffic of the algorithms that move many blocks a message: Bruck and the two-level ones.
#include <algorithm>
#include <bit>

#include "collectives/cost_traffic.h"

namespace nqd::collectives {
namespace {

// What one rank forwards in Bruck's all-to-all on n ranks. A block for the rank j places ahead
// moves by 2^k in step k when bit k of j is set, so what has p places left to go leaves in the step
// of p's lowest set bit, 2^k, and its lower bits, behind it, tell min(2^k, n − p) such blocks
// apart.
class BruckBlocks {
 public:
  explicit BruckBlocks(std::size_t n) : n_(n) {}

  // Blocks sent in all: those at distances 1, …, n−1.
  std::uint64_t total() const { return before(n_); }

  // Blocks at distances 1, …, end−1.
  std::uint64_t before(std::size_t end) const {
    std::uint64_t blocks = 0;
    if (end <= 1) return 0;
    for (std::size_t k = 0; (std::size_t{1} << k) < n_; ++k) {
      const std::size_t step = std::size_t{1} << k;
      const std::size_t distances = ((end - 1) >> k) - ((end - 1) >> (k + 1));
      blocks += distances * step;
      // Only the last distance of a step can have fewer sources than the others.
      const std::size_t last = (((n_ - 1) >> k) | 1) << k;
      if (last < end && last + step > n_) blocks -= step - (n_ - last);
    }
    return blocks;
  }

  // Blocks at distances within [first, last), cut to [1, n).
  std::uint64_t within(std::size_t first, std::size_t last) const {
    return before(std::min(last, n_)) - before(std::min(first, n_));
  }

  // Whether step k sends a block at a distance within [first, last).
  bool any(std::size_t k, std::size_t first, std::size_t last) const {
    const std::size_t step = std::size_t{1} << k;
    std::size_t distance = step;
    if (first > step) distance += (first - step + 2 * step - 1) / (2 * step) * (2 * step);
    return distance < std::min(last, n_);
  }

 private:
  std::size_t n_;
};

// Chunks of a vector cut in ranks, seen as one set of `nodes` chunks for each place in a node.
class PlaceSets {
 public:
  explicit PlaceSets(const TrafficCall& call)
      : call_(call), g_(call.ranks_per_node), nodes_(call.ranks / call.ranks_per_node) {}

  std::size_t nodes() const { return nodes_; }
  // Elements of the chunks place, place + g, place + 2g, …
  std::size_t elements(std::size_t place) const {
    return nodes_ * (call_.count / call_.ranks) + below(place, call_.count % call_.ranks);
  }
  // How many of them are not empty.
  std::size_t filled(std::size_t place) const {
    return below(place, std::min(call_.count, call_.ranks));
  }
  // Messages and bytes of all sets but one.
  RankTraffic all_but(std::size_t place) const {
    return {std::min(call_.count, g_) - (elements(place) > 0 ? 1 : 0),
            (call_.count - elements(place)) * call_.element_bytes};
  }
  // Messages and bytes of an all_gather: the own chunk across, then the own set inside.
  RankTraffic spread(std::size_t place, std::size_t node) const {
    const std::size_t own = chunk_of(call_.count, call_.ranks, node * g_ + place).count;
    const std::size_t set = elements(place);
    return {(own > 0 ? nodes_ - 1 : 0) + (set > 0 ? g_ - 1 : 0),
            ((nodes_ - 1) * own + (g_ - 1) * set) * call_.element_bytes};
  }
  // Messages and bytes of the chunks of a set but the one of `node`.
  RankTraffic set_but(std::size_t place, std::size_t node) const {
    const std::size_t left_out = chunk_of(call_.count, call_.ranks, node * g_ + place).count;
    return {filled(place) - (left_out > 0 ? 1 : 0),
            (elements(place) - left_out) * call_.element_bytes};
  }

 private:
  // How many of the chunks of a set have an index below `limit`.
  std::size_t below(std::size_t place, std::size_t limit) const {
    return limit > place ? std::min(nodes_, (limit - place - 1) / g_ + 1) : 0;
  }

  const TrafficCall& call_;
  std::size_t g_;
  std::size_t nodes_;
};

}  // namespace

RankTraffic bruck_all_gather_traffic(const TrafficCall& call) {
  RankTraffic traffic;
  const auto begin = [&](std::size_t chunk) {
    return chunk / call.ranks * call.count +
           chunk_of(call.count, call.ranks, chunk % call.ranks).begin;
  };
  for (std::size_t held = 1; held < call.ranks; held *= 2) {
    const std::size_t blocks = std::min(held, call.ranks - held);
    const std::size_t elements = begin(call.rank + blocks) - begin(call.rank);
    if (elements > 0) traffic = traffic + RankTraffic{1, elements * call.element_bytes};
  }
  return traffic;
}

RankTraffic bruck_all_to_all_traffic(const TrafficCall& call) {
  const std::size_t n = call.ranks;
  const BruckBlocks blocks(n);
  // Chunks below `limit` of a rank are those at distances from n − rank on, around the ring.
  const auto ranges = [&](std::size_t limit) {
    const std::size_t first = n - call.rank;
    const std::size_t wrapped = first + limit > n ? first + limit - n : 0;
    return std::pair{std::pair{first, std::min(first + limit, n)},
                     std::pair{std::size_t{0}, wrapped}};
  };
  const auto [longer, longer_wrapped] = ranges(call.count % n);
  RankTraffic traffic;
  traffic.bytes_sent =
      (blocks.total() * (call.count / n) + blocks.within(longer.first, longer.second) +
       blocks.within(longer_wrapped.first, longer_wrapped.second)) *
      call.element_bytes;
  const auto [filled, filled_wrapped] = ranges(std::min(call.count, n));
  for (std::size_t k = 0; k < ceil_log2(n); ++k) {
    if (blocks.any(k, filled.first, filled.second) ||
        blocks.any(k, filled_wrapped.first, filled_wrapped.second)) {
      ++traffic.messages;
    }
  }
  return traffic;
}

RankTraffic two_level_all_reduce_traffic(const TrafficCall& call, const TwoLevelPlace& at) {
  const std::size_t parts = call.ranks_per_node;
  const std::size_t own = at.place < parts ? chunk_of(call.count, parts, at.place).count : 0;
  const std::uint64_t filled = std::min(call.count, parts);
  RankTraffic traffic;
  if (at.here > 1) {
    traffic.messages = filled - (own > 0 ? 1 : 0) + (own > 0 ? at.here - 1 : 0);
    traffic.bytes_sent = (call.count - own + (at.here - 1) * own) * call.element_bytes;
  }
  if (at.hosts == 1 || own == 0) return traffic;
  const TrafficCall across{at.hosts, at.host, own, call.element_bytes};
  return traffic + ring_pass(across, at.host) + ring_pass(across, (at.host + 1) % at.hosts);
}

RankTraffic hierarchical_traffic(Collective collective, const TrafficCall& call) {
  const std::size_t g = call.ranks_per_node;
  const std::size_t place = call.rank % g;
  const std::size_t node = call.rank / g;
  const PlaceSets sets(call);
  switch (collective) {
    case Collective::kAllGather:
      return sets.spread(place, node);
    case Collective::kReduceScatter:
      return sets.all_but(place) + sets.set_but(place, node);
    case Collective::kAllToAll: {
      // Every rank of the node has given its block for the target to this one.
      RankTraffic across = sets.set_but(place, node);
      across.bytes_sent *= g;
      return sets.all_but(place) + across;
    }
    default:
      return two_level_all_reduce_traffic(call, {place, g, node, sets.nodes()});
  }
}

}  // namespace nqd::collectives

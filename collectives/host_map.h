// Which ranks of a group share a host, and what the algorithms that know it send.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "collectives/cost.h"
#include "collectives/types.h"

namespace nqd::collectives {

class Communicator;

// Hosts count from 0 in the order of their first ranks; the place of a rank is its index among the
// ranks of its host, in rank order.
class HostMap {
 public:
  // `host_of_rank` by rank, not empty.
  explicit HostMap(const std::vector<std::string>& host_of_rank);

  std::size_t ranks() const { return host_of_.size(); }
  std::size_t hosts() const { return members_.size(); }
  std::size_t host_of(std::size_t rank) const { return host_of_[rank]; }
  std::size_t place_of(std::size_t rank) const { return place_of_[rank]; }
  const std::vector<int>& members(std::size_t host) const { return members_[host]; }
  // Ranks of the host that has fewest: every host has these places.
  std::size_t shared_places() const { return shared_places_; }
  // Several hosts, and several ranks on one of them.
  bool has_two_levels() const { return hosts() > 1 && hosts() < ranks(); }

 private:
  std::vector<std::size_t> host_of_;
  std::vector<std::size_t> place_of_;
  std::vector<std::vector<int>> members_;  // by host
  std::size_t shared_places_ = 0;
};

HostMap host_map_of(const Communicator& communicator);

// cost.h's rank_traffic and max_traffic for ranks that lie so. They differ for hierarchical alone,
// which has a price here whatever the number of ranks a host. With p the rank's place, h the ranks
// of its host, k hosts, g = shared_places() parts part(j) of the vector:
//   all_reduce      inside: part(j) to every other owner j < g; an owner (p < g) gives part(p) to
//   the
//                   h−1 others at the end. Across, owners of one place: pairwise reduce_scatter and
//                   ring all_gather of part(p) among k
//   all_gather      set(j) of a host = chunks of its places j, j + g, …: a rank of place p >= g
//   gives
//                   its chunk to its owner. An owner sends its host's set(p) to k−1 hosts, and all
//                   hosts' set(p) to the h−1 others, but for the chunk that is theirs
//   reduce_scatter  all hosts' set(j) to every other owner j; an owner sends each other host its
//                   set(p), and their chunks to those that it works for
RankTraffic rank_traffic(const HostMap& hosts, Collective collective, Algorithm algorithm,
                         std::size_t rank, std::size_t count, std::size_t element_bytes);
RankTraffic max_traffic(const HostMap& hosts, Collective collective, Algorithm algorithm,
                        std::size_t count, std::size_t element_bytes);

}  // namespace nqd::collectives

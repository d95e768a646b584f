// What one collective costs among ranks that sit on nodes: α–β of the node's own link, of its share
// of the network adapters, and of algorithms that use both. Closed forms without allocation, for
// the innermost loop of a search.
#pragma once

#include <cstdint>

#include "collectives/cost.h"

namespace nqd::planner {

// A group of `ranks`, `ranks_per_node` of them on each of its nodes. Every count is at least 1;
// ranks_per_node divides ranks.
struct GroupTopology {
  std::int64_t ranks = 1;
  std::int64_t ranks_per_node = 1;
  // Groups like this one that use the adapters of one node at the same time, this one included.
  std::int64_t concurrent_groups_per_node = 1;
  collectives::Link intra;  // of one rank, inside the node
  std::int64_t nics_per_node = 1;
  double nic_bandwidth_bytes_per_s = 0;  // of one adapter, one direction; > 0 across nodes
  double nic_alpha_s = 0;                // of one message across nodes
  double oversubscription = 1;           // what leaves nodes ÷ what the network carries; >= 1
  // Separate networks that the adapters of a node are spread over. A rank reaches those of its own
  // rail: 1 = all adapters, nics_per_node = one (rail-optimised).
  std::int64_t rails = 1;

  std::int64_t nodes() const noexcept { return ranks / ranks_per_node; }
};

// Bytes a second that the members in one node send to other nodes, together: an equal share of the
// adapters with the concurrent groups, of those adapters only whose rails have a member, over the
// oversubscription.
double egress_bytes_per_s(const GroupTopology& group) noexcept;

// The group's nodes as ranks of one link: α of a message across nodes, β of the members' egress.
// γ is that of intra.
collectives::Link node_link(const GroupTopology& group) noexcept;

// Seconds of one call with payload `bytes` as collectives/cost.h defines it; 0 for one rank and for
// a pair without has_cost(). n ranks in k nodes of g, E = egress, αi, βi of intra, αx of the
// network:
//   inside one node      cost_terms over intra
//   ring                 α: hops inside a node cost αi, the k − 1 (all_reduce 2(k−1)) others αx;
//                        β: the ring leaves a node once, so the slower of βi and 1/E
//   double_binary_tree   chains inside nodes and the double tree across them:
//                        2(g−1)·αi + 2⌈log2 k⌉·αx; β: the slower of βi and 1/E
//   hierarchical         cost_terms' two levels over intra and over g/E, since the g members of a
//                        node are on the network at once
//   nvls                 all_reduce inside nodes by the switch, then the ring across nodes on the
//                        rank's share; all_gather and reduce_scatter likewise
//   pairwise all_to_all  (g−1)αi + (n−g)αx; bytes inside and across flow side by side: the slower
//                        of (g−1)/n·S·βi and g(n−g)/n·S/E
//   others               every step may cross: cost_terms over αx and the slower of βi and g/E
double group_time_s(const GroupTopology& group, collectives::Collective collective,
                    collectives::Algorithm algorithm, double bytes) noexcept;

}  // namespace nqd::planner

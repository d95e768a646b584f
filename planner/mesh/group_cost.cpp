#include "planner/mesh/group_cost.h"

#include <algorithm>
#include <bit>

namespace nqd::planner {
namespace {

using collectives::Algorithm;
using collectives::Collective;
using collectives::CostTerms;
using collectives::LevelTerms;
using collectives::Link;

std::size_t unsigned_of(std::int64_t count) noexcept { return static_cast<std::size_t>(count); }

double real(std::int64_t count) noexcept { return static_cast<double>(count); }

// `link` as each of the g members of a node sees it when all use it at once.
Link shared(Link link, std::int64_t members) noexcept {
  link.beta_s_per_byte *= real(members);
  return link;
}

// The network as `members` of a node use it at once, no faster than the link inside the node.
Link bottleneck(const GroupTopology& group, std::int64_t members) noexcept {
  Link link = shared(node_link(group), members);
  if (group.ranks_per_node > 1) {
    link.beta_s_per_byte = std::max(link.beta_s_per_byte, group.intra.beta_s_per_byte);
  }
  return link;
}

// `terms` at the bottleneck that all members of a node share, with a latency of their own.
double pipelined_time_s(const GroupTopology& group, const CostTerms& terms, double latency_s,
                        double bytes) noexcept {
  return latency_s + time_s({0, terms.sent, terms.reduced}, bytes, bottleneck(group, 1));
}

double ring_time_s(const GroupTopology& group, const CostTerms& terms, double bytes) noexcept {
  // A pass of n − 1 hops crosses nodes k − 1 times.
  const double passes = terms.steps / real(group.ranks - 1);
  const double crossing = passes * real(group.nodes() - 1);
  return pipelined_time_s(
      group, terms, (terms.steps - crossing) * group.intra.alpha_s + crossing * group.nic_alpha_s,
      bytes);
}

double double_tree_time_s(const GroupTopology& group, const CostTerms& terms,
                          double bytes) noexcept {
  const double levels = real(std::bit_width(unsigned_of(group.nodes() - 1)));
  return pipelined_time_s(
      group, terms,
      2 * real(group.ranks_per_node - 1) * group.intra.alpha_s + 2 * levels * group.nic_alpha_s,
      bytes);
}

double two_level_time_s(const GroupTopology& group, Collective collective, double bytes) noexcept {
  const LevelTerms terms = cost_terms(collective, Algorithm::kHierarchical,
                                      unsigned_of(group.ranks), unsigned_of(group.ranks_per_node));
  return time_s(terms.inside, bytes, group.intra) +
         time_s(terms.across, bytes, shared(node_link(group), group.ranks_per_node));
}

// The switch does inside a node what the first level of hierarchical does; broadcast and reduce
// have no second level and pass the whole vector from node to node.
double nvls_time_s(const GroupTopology& group, Collective collective, double bytes) noexcept {
  const auto g = unsigned_of(group.ranks_per_node);
  const auto n = unsigned_of(group.ranks);
  const double inside_s =
      time_s(cost_terms(collective, Algorithm::kNvls, g).inside, bytes, group.intra);
  if (has_cost(collective, Algorithm::kHierarchical, n, g)) {
    return inside_s + time_s(cost_terms(collective, Algorithm::kHierarchical, n, g).across, bytes,
                             shared(node_link(group), group.ranks_per_node));
  }
  const auto k = unsigned_of(group.nodes());
  return inside_s +
         time_s(cost_terms(collective, Algorithm::kRing, k).inside, bytes, node_link(group));
}

double pairwise_exchange_time_s(const GroupTopology& group, double bytes) noexcept {
  const double n = real(group.ranks);
  const double g = real(group.ranks_per_node);
  const Link across = shared(node_link(group), group.ranks_per_node);
  const double inside_s = (g - 1) / n * bytes * group.intra.beta_s_per_byte;
  const double across_s = (n - g) / n * bytes * across.beta_s_per_byte;
  return (g - 1) * group.intra.alpha_s + (n - g) * across.alpha_s + std::max(inside_s, across_s);
}

}  // namespace

double egress_bytes_per_s(const GroupTopology& group) noexcept {
  const double share = real(group.nics_per_node) / real(group.concurrent_groups_per_node);
  const double reached = real(group.ranks_per_node) * real(group.nics_per_node) / real(group.rails);
  return std::min(share, reached) * group.nic_bandwidth_bytes_per_s / group.oversubscription;
}

Link node_link(const GroupTopology& group) noexcept {
  return {group.nic_alpha_s, 1 / egress_bytes_per_s(group), group.intra.gamma_s_per_byte};
}

double group_time_s(const GroupTopology& group, Collective collective, Algorithm algorithm,
                    double bytes) noexcept {
  const auto n = unsigned_of(group.ranks);
  const auto g = unsigned_of(group.ranks_per_node);
  if (n <= 1 || !has_cost(collective, algorithm, n, g)) return 0;
  const CostTerms terms = cost_terms(collective, algorithm, n, g).inside;
  if (group.nodes() == 1) return time_s(terms, bytes, group.intra);
  switch (*known_algorithm(collective, algorithm)) {
    case Algorithm::kRing:
      return ring_time_s(group, terms, bytes);
    case Algorithm::kDoubleBinaryTree:
      return double_tree_time_s(group, terms, bytes);
    case Algorithm::kHierarchical:
      return two_level_time_s(group, collective, bytes);
    case Algorithm::kNvls:
      return nvls_time_s(group, collective, bytes);
    case Algorithm::kPairwise:
      if (collective == Collective::kAllToAll) return pairwise_exchange_time_s(group, bytes);
      break;
    default:
      break;
  }
  return time_s(terms, bytes, bottleneck(group, group.ranks_per_node));
}

}  // namespace nqd::planner

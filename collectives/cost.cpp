#include "collectives/cost.h"

#include <algorithm>
#include <array>
#include <bit>
#include <string>

#include "base/error.h"
#include "collectives/cost_traffic.h"

namespace nqd::collectives {
namespace {

struct Pair {
  Collective collective;
  Algorithm algorithm;
  bool executable = false;  // collectives/algorithms/ has it
};
// The first of a collective is what kAuto means.
constexpr std::array kPairs = {
    Pair{Collective::kAllReduce, Algorithm::kRing, true},
    Pair{Collective::kAllReduce, Algorithm::kTree, true},
    Pair{Collective::kAllReduce, Algorithm::kDoubleBinaryTree},
    Pair{Collective::kAllReduce, Algorithm::kRecursiveDoubling, true},
    Pair{Collective::kAllReduce, Algorithm::kHalvingDoubling, true},
    Pair{Collective::kAllReduce, Algorithm::kHierarchical, true},
    Pair{Collective::kAllReduce, Algorithm::kNvls},
    Pair{Collective::kAllReduce, Algorithm::kPairwise, true},
    Pair{Collective::kAllReduce, Algorithm::kDirect, true},
    Pair{Collective::kAllGather, Algorithm::kRing, true},
    Pair{Collective::kAllGather, Algorithm::kHalvingDoubling, true},
    Pair{Collective::kAllGather, Algorithm::kHierarchical, true},
    Pair{Collective::kAllGather, Algorithm::kNvls},
    Pair{Collective::kAllGather, Algorithm::kBruck},
    Pair{Collective::kAllGather, Algorithm::kDirect, true},
    Pair{Collective::kReduceScatter, Algorithm::kRing, true},
    Pair{Collective::kReduceScatter, Algorithm::kHalvingDoubling, true},
    Pair{Collective::kReduceScatter, Algorithm::kHierarchical, true},
    Pair{Collective::kReduceScatter, Algorithm::kNvls},
    Pair{Collective::kReduceScatter, Algorithm::kPairwise, true},
    Pair{Collective::kReduceScatter, Algorithm::kDirect, true},
    Pair{Collective::kBroadcast, Algorithm::kTree, true},
    Pair{Collective::kBroadcast, Algorithm::kRing},
    Pair{Collective::kBroadcast, Algorithm::kNvls},
    Pair{Collective::kBroadcast, Algorithm::kDirect, true},
    Pair{Collective::kReduce, Algorithm::kTree, true},
    Pair{Collective::kReduce, Algorithm::kRing},
    Pair{Collective::kReduce, Algorithm::kNvls},
    Pair{Collective::kReduce, Algorithm::kDirect, true},
    Pair{Collective::kAllToAll, Algorithm::kPairwise, true},
    Pair{Collective::kAllToAll, Algorithm::kBruck},
    Pair{Collective::kAllToAll, Algorithm::kHierarchical},
    Pair{Collective::kAllToAll, Algorithm::kDirect, true},
    Pair{Collective::kGather, Algorithm::kLinear, true},
    Pair{Collective::kGather, Algorithm::kDirect, true},
    Pair{Collective::kScatter, Algorithm::kLinear, true},
    Pair{Collective::kScatter, Algorithm::kDirect, true},
    Pair{Collective::kBarrier, Algorithm::kAuto, true},
    Pair{Collective::kSendRecv, Algorithm::kAuto, true},
};

// Searches that price millions of calls look pairs up here: 1 + the index in kPairs, 0 for none.
constexpr std::size_t kCollectives = 10;
constexpr std::size_t kAlgorithms = 13;
using PairIndex = std::array<std::array<std::uint8_t, kAlgorithms>, kCollectives>;
constexpr PairIndex kPairIndex = [] {
  PairIndex index{};
  for (std::size_t i = kPairs.size(); i > 0; --i) {
    auto& row = index[static_cast<std::size_t>(kPairs[i - 1].collective)];
    row[static_cast<std::size_t>(kPairs[i - 1].algorithm)] = static_cast<std::uint8_t>(i);
    row[static_cast<std::size_t>(Algorithm::kAuto)] = static_cast<std::uint8_t>(i);
  }
  return index;
}();

const Pair* find_pair(Collective collective, Algorithm algorithm) noexcept {
  const std::size_t found =
      kPairIndex[static_cast<std::size_t>(collective)][static_cast<std::size_t>(algorithm)];
  return found == 0 ? nullptr : &kPairs[found - 1];
}

[[noreturn]] void throw_no_algorithm(Collective collective, Algorithm algorithm,
                                     const std::string& reason, const std::string& hint) {
  throw Error(ExitCode::kUsage, "NQD2102",
              std::string(name(collective)) + " has no " + std::string(name(algorithm)) +
                  " algorithm " + reason,
              hint);
}

// The algorithm that is priced; the known pairs that these ranks do not suit have their own words.
Algorithm priced(Collective collective, Algorithm algorithm, std::size_t ranks,
                 std::size_t ranks_per_node) {
  const Pair* pair = find_pair(collective, algorithm);
  if (pair == nullptr) {
    throw_no_algorithm(collective, algorithm, "whose traffic is known",
                       "`nqd calc comm` without --algorithm lists those that are");
  }
  if (has_cost(collective, pair->algorithm, ranks, ranks_per_node)) return pair->algorithm;
  const std::string pair_name =
      std::string(name(pair->algorithm)) + " " + std::string(name(collective));
  if (pair->algorithm == Algorithm::kHierarchical) {
    throw Error(ExitCode::kUsage, "NQD2102",
                pair_name + " needs nodes of equal size, and " + std::to_string(ranks) +
                    " ranks are no multiple of " + std::to_string(ranks_per_node) + " a node",
                "give a number of ranks a node that divides the ranks");
  }
  throw Error(ExitCode::kUsage, "NQD2102",
              pair_name + " needs a power of two of ranks, not " + std::to_string(ranks),
              "use ring, or bruck for all_gather and pairwise for reduce_scatter");
}

RankTraffic all_reduce_traffic(Algorithm algorithm, const TrafficCall& call) {
  switch (algorithm) {
    case Algorithm::kTree:
      return whole_vectors(call, tree_children(call.ranks, call.rank) + (call.rank == 0 ? 0 : 1));
    case Algorithm::kDoubleBinaryTree:
      return double_tree_all_reduce_traffic(call);
    case Algorithm::kRecursiveDoubling:
      return recursive_doubling_traffic(call);
    case Algorithm::kHalvingDoubling:
      return halving_doubling_all_reduce_traffic(call);
    case Algorithm::kPairwise:
      return ring_pass(call, call.rank) + ring_pass(call, (call.rank + 1) % call.ranks);
    default:
      return ring_all_reduce_traffic(call);
  }
}

RankTraffic flat_traffic(Collective collective, Algorithm algorithm, const TrafficCall& call) {
  const bool ring = algorithm == Algorithm::kRing;
  switch (collective) {
    case Collective::kAllReduce:
      return all_reduce_traffic(algorithm, call);
    case Collective::kAllGather:
      if (algorithm == Algorithm::kBruck) return bruck_all_gather_traffic(call);
      return ring ? ring_pass(call, (call.rank + 1) % call.ranks)
                  : doubling_all_gather_traffic(call);
    case Collective::kReduceScatter:
      if (algorithm == Algorithm::kHalvingDoubling) return halving_reduce_scatter_traffic(call);
      return ring_pass(call, call.rank);
    case Collective::kBroadcast:
      return whole_vectors(
          call, ring ? (call.rank + 1 < call.ranks ? 1 : 0) : tree_children(call.ranks, call.rank));
    case Collective::kReduce:
      return whole_vectors(call, call.rank == 0 ? 0 : 1);
    case Collective::kAllToAll:
      if (algorithm == Algorithm::kBruck) return bruck_all_to_all_traffic(call);
      return ring_pass(call, call.rank);
    case Collective::kGather:
      return gather_traffic(call);
    case Collective::kScatter:
      return call.rank == 0 ? ring_pass(call, 0) : RankTraffic{};
    case Collective::kBarrier:
      return {ceil_log2(call.ranks), 0};
    case Collective::kSendRecv:
      return {1, call.bytes()};
  }
  return {};
}

bool one_half_of_two(Collective collective, Algorithm algorithm) {
  return algorithm == Algorithm::kHalvingDoubling && collective != Collective::kAllReduce;
}

}  // namespace

std::optional<Algorithm> known_algorithm(Collective collective, Algorithm algorithm) noexcept {
  const Pair* pair = find_pair(collective, algorithm);
  return pair == nullptr ? std::nullopt : std::optional(pair->algorithm);
}

bool is_executable(Collective collective, Algorithm algorithm) noexcept {
  const Pair* pair = find_pair(collective, algorithm);
  return pair != nullptr && pair->executable;
}

Algorithm resolve(Collective collective, Algorithm algorithm) {
  if (!is_executable(collective, algorithm)) {
    throw_no_algorithm(
        collective, algorithm, "that nqd runs",
        "use ring, tree or direct for all_reduce, and auto or direct for the others");
  }
  return find_pair(collective, algorithm)->algorithm;
}

bool has_cost(Collective collective, Algorithm algorithm, std::size_t ranks,
              std::size_t ranks_per_node) noexcept {
  const Pair* pair = find_pair(collective, algorithm);
  if (pair == nullptr) return false;
  if (pair->algorithm == Algorithm::kHierarchical) {
    return ranks_per_node > 0 && ranks % ranks_per_node == 0;
  }
  return !one_half_of_two(collective, pair->algorithm) || std::has_single_bit(ranks);
}

RankTraffic rank_traffic(Collective collective, Algorithm algorithm, std::size_t ranks,
                         std::size_t rank, std::size_t count, std::size_t element_bytes,
                         std::size_t ranks_per_node) {
  const Algorithm chosen = priced(collective, algorithm, ranks, ranks_per_node);
  if (ranks <= 1) return {};
  const TrafficCall call{ranks, rank, count, element_bytes, ranks_per_node};
  if (chosen == Algorithm::kHierarchical) return hierarchical_traffic(collective, call);
  if (chosen == Algorithm::kNvls) return nvls_traffic(collective, call);
  if (chosen == Algorithm::kDirect) return direct_traffic(collective, call);
  return flat_traffic(collective, chosen, call);
}

RankTraffic max_traffic(Collective collective, Algorithm algorithm, std::size_t ranks,
                        std::size_t count, std::size_t element_bytes, std::size_t ranks_per_node) {
  RankTraffic most;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const RankTraffic one =
        rank_traffic(collective, algorithm, ranks, rank, count, element_bytes, ranks_per_node);
    most.messages = std::max(most.messages, one.messages);
    most.bytes_sent = std::max(most.bytes_sent, one.bytes_sent);
  }
  return most;
}

std::uint64_t steps(Collective collective, Algorithm algorithm, std::size_t ranks,
                    std::size_t ranks_per_node) {
  const Algorithm chosen = priced(collective, algorithm, ranks, ranks_per_node);
  const LevelTerms terms = cost_terms(collective, chosen, ranks, ranks_per_node);
  return static_cast<std::uint64_t>(terms.inside.steps + terms.across.steps);
}

double time_s(Collective collective, Algorithm algorithm, std::size_t ranks, double bytes,
              const Link& link, std::size_t ranks_per_node) {
  const Algorithm chosen = priced(collective, algorithm, ranks, ranks_per_node);
  const LevelTerms terms = cost_terms(collective, chosen, ranks, ranks_per_node);
  return time_s(terms.inside, bytes, link) + time_s(terms.across, bytes, link);
}

double bus_factor(Collective collective, std::size_t ranks) {
  const auto n = static_cast<double>(ranks);
  switch (collective) {
    case Collective::kAllReduce:
      return 2 * (n - 1) / n;
    case Collective::kAllGather:
    case Collective::kReduceScatter:
    case Collective::kAllToAll:
    case Collective::kGather:
    case Collective::kScatter:
      return (n - 1) / n;
    case Collective::kBroadcast:
    case Collective::kReduce:
    case Collective::kBarrier:
    case Collective::kSendRecv:
      return 1;
  }
  return 1;
}

}  // namespace nqd::collectives

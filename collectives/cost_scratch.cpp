#include "collectives/cost_scratch.h"

#include <bit>
#include <string>

#include "base/error.h"
#include "collectives/algorithms/pieces.h"
#include "collectives/cost.h"
#include "collectives/cost_traffic.h"

namespace nqd::collectives {
namespace {

[[noreturn]] void refuse(Collective collective, Algorithm algorithm) {
  throw Error(ExitCode::kUsage, "NQD2102",
              "the scratch of " + std::string(name(algorithm)) + " " +
                  std::string(name(collective)) + " is not listed",
              "use one of those that collectives/cost_scratch.h lists");
}

// Of n ranks the first n − m pairs fold, m being the largest power of two: the even one of a pair
// only gives its vector away.
bool is_away(std::size_t ranks, std::size_t rank) {
  return rank < 2 * (ranks - std::bit_floor(ranks)) && rank % 2 == 0;
}

std::size_t tree_scratch(const TrafficCall& call) {
  const auto children = static_cast<std::size_t>(tree_children(call.ranks, call.rank));
  if (children == 0) return 0;
  const std::size_t pieces = pieces_of(call.bytes());
  const std::size_t longest = chunk_of(call.count, pieces, 0).count * call.element_bytes;
  return (pieces == 1 ? 1 : 2 * children) * longest;
}

std::size_t pairwise_scratch(const TrafficCall& call) {
  return call.ranks * chunk_of(call.count, call.ranks, call.rank).count * call.element_bytes;
}

std::size_t all_reduce_scratch(Algorithm algorithm, const TrafficCall& call) {
  switch (algorithm) {
    case Algorithm::kRing:
      return ring_all_reduce_scratch(call.ranks, call.count, call.element_bytes);
    case Algorithm::kTree:
      return tree_scratch(call);
    case Algorithm::kRecursiveDoubling:
    case Algorithm::kHalvingDoubling:
      return is_away(call.ranks, call.rank) ? 0 : call.bytes();
    case Algorithm::kPairwise:
      return pairwise_scratch(call);
    case Algorithm::kDirect:
      return direct_all_reduce_scratch(call.ranks, call.count, call.element_bytes);
    default:
      refuse(Collective::kAllReduce, algorithm);
  }
}

std::size_t reduce_scatter_scratch(Algorithm algorithm, const TrafficCall& call) {
  switch (algorithm) {
    case Algorithm::kRing:
      return 2 * chunk_of(call.count, call.ranks, 0).count * call.element_bytes;
    case Algorithm::kHalvingDoubling:
      return 2 * call.bytes();
    case Algorithm::kPairwise:
      return pairwise_scratch(call);
    case Algorithm::kDirect:
      return 0;
    default:
      refuse(Collective::kReduceScatter, algorithm);
  }
}

}  // namespace

std::size_t scratch_bytes(Collective collective, Algorithm algorithm, std::size_t ranks,
                          std::size_t rank, std::size_t count, std::size_t element_bytes) {
  if (ranks <= 1) return 0;
  const TrafficCall call{ranks, rank, count, element_bytes, 1};
  switch (collective) {
    case Collective::kAllReduce:
      return all_reduce_scratch(algorithm, call);
    case Collective::kReduceScatter:
      return reduce_scatter_scratch(algorithm, call);
    case Collective::kAllGather:
    case Collective::kAllToAll:
    case Collective::kSendRecv:
    case Collective::kBarrier:
      return 0;
    default:
      refuse(collective, algorithm);
  }
}

}  // namespace nqd::collectives

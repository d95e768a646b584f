#include "collectives/canonical/traffic.h"

#include <string>

#include "base/error.h"
#include "collectives/numerics.h"

namespace nqd::collectives {

Algorithm canonical_choice(Collective collective, const ContributionLayout& layout,
                           std::uint64_t bytes, DType type, bool reaches_memory,
                           Algorithm algorithm) {
  if (algorithm == Algorithm::kAuto) {
    const auto choice =
        canonical_algorithm(collective, layout.ranks(), bytes, type, reaches_memory);
    algorithm = choice.value_or(Algorithm::kPairwise);
  }
  if (!is_executable(collective, algorithm) ||
      !is_canonical(collective, algorithm, layout.ranks(), type)) {
    throw Error(ExitCode::kUsage, "NQD2102",
                std::string(name(algorithm)) + " does not add in the canonical order on " +
                    std::to_string(layout.ranks()) + " ranks",
                "use direct or pairwise, which always do, or auto");
  }
  if (layout.is_even() || algorithm == Algorithm::kDirect) return algorithm;
  return Algorithm::kPairwise;
}

RankTraffic canonical_traffic(Collective collective, const ContributionLayout& layout,
                              Algorithm choice, std::size_t rank, std::size_t count,
                              std::size_t element_bytes) {
  const std::size_t n = layout.ranks();
  if (layout.is_even()) {
    return rank_traffic(collective, choice, n, rank, count, element_bytes);
  }
  const bool is_direct = choice == Algorithm::kDirect;
  const std::uint64_t nodes = layout.nodes(rank).size();
  const std::uint64_t ragged_rounds = layout.most_nodes() - layout.fewest_nodes();
  const RankTraffic full =
      rank_traffic(Collective::kAllToAll, choice, n, rank, count, element_bytes);
  RankTraffic sent{layout.fewest_nodes() * full.messages + ragged_rounds * (n - 1),
                   nodes * full.bytes_sent};
  if (is_direct) {
    sent.bytes_sent = (layout.all_nodes() - nodes) * chunk_of(count, n, rank).count * element_bytes;
  }
  if (collective == Collective::kAllReduce) {
    const RankTraffic gather =
        rank_traffic(Collective::kAllGather, is_direct ? Algorithm::kDirect : Algorithm::kRing, n,
                     rank, count, element_bytes);
    sent.messages += gather.messages;
    sent.bytes_sent += gather.bytes_sent;
  }
  return sent;
}

}  // namespace nqd::collectives

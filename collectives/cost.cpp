#include "collectives/cost.h"

#include <algorithm>
#include <bit>
#include <string>

#include "base/error.h"

namespace nqd::collectives {
namespace {

[[noreturn]] void throw_no_algorithm(Collective collective, Algorithm algorithm) {
  throw Error(ExitCode::kUsage, "NQD2102",
              std::string(name(collective)) + " has no " + std::string(name(algorithm)) +
                  " algorithm whose traffic is known",
              "use ring or tree for all_reduce, and auto for every other collective");
}

std::uint64_t ceil_log2(std::size_t n) { return n <= 1 ? 0 : std::bit_width(n - 1); }

// Children of `rank` in the binomial tree of root 0: rank + 2^k for each 2^k below rank's lowest
// set bit (every power for the root) that stays inside.
std::uint64_t tree_children(std::size_t ranks, std::size_t rank) {
  std::uint64_t children = 0;
  for (std::size_t mask = 1; mask < ranks && (rank & mask) == 0; mask <<= 1) {
    if (rank + mask < ranks) ++children;
  }
  return children;
}

// One pass around the ring sends every chunk but `skipped`.
RankTraffic ring_pass(std::size_t ranks, std::size_t skipped, std::size_t count,
                      std::size_t element_bytes) {
  const std::size_t left_out = chunk_of(count, ranks, skipped).count;
  const std::size_t filled_chunks = std::min(count, ranks);
  return {filled_chunks - (left_out > 0 ? 1 : 0), (count - left_out) * element_bytes};
}

RankTraffic operator+(RankTraffic a, RankTraffic b) {
  return {a.messages + b.messages, a.bytes_sent + b.bytes_sent};
}

RankTraffic tree_traffic(std::uint64_t messages, std::uint64_t bytes) {
  return bytes == 0 ? RankTraffic{} : RankTraffic{messages, messages * bytes};
}

}  // namespace

Algorithm resolve(Collective collective, Algorithm algorithm) {
  switch (collective) {
    case Collective::kAllReduce:
      if (algorithm == Algorithm::kAuto) return Algorithm::kRing;
      if (algorithm == Algorithm::kRing || algorithm == Algorithm::kTree) return algorithm;
      break;
    case Collective::kAllGather:
    case Collective::kReduceScatter:
      if (algorithm == Algorithm::kAuto || algorithm == Algorithm::kRing) return Algorithm::kRing;
      break;
    case Collective::kBroadcast:
      if (algorithm == Algorithm::kAuto || algorithm == Algorithm::kTree) return Algorithm::kTree;
      break;
    case Collective::kBarrier:
    case Collective::kSendRecv:
      if (algorithm == Algorithm::kAuto) return Algorithm::kAuto;
      break;
  }
  throw_no_algorithm(collective, algorithm);
}

RankTraffic rank_traffic(Collective collective, Algorithm algorithm, std::size_t ranks,
                         std::size_t rank, std::size_t count, std::size_t element_bytes) {
  const Algorithm resolved = resolve(collective, algorithm);
  if (ranks <= 1) return {};
  const std::uint64_t bytes = count * element_bytes;
  switch (collective) {
    case Collective::kAllReduce:
      if (resolved == Algorithm::kTree) {
        return tree_traffic(tree_children(ranks, rank) + (rank == 0 ? 0 : 1), bytes);
      }
      // Reduce-scatter ends with rank i owning chunk i+1, so it never sends that one; the
      // all-gather pass then ends before the chunk that its right neighbour owned.
      return ring_pass(ranks, (rank + 1) % ranks, count, element_bytes) +
             ring_pass(ranks, (rank + 2) % ranks, count, element_bytes);
    case Collective::kAllGather:
      return ring_pass(ranks, (rank + 1) % ranks, count, element_bytes);
    case Collective::kReduceScatter:
      return ring_pass(ranks, rank, count, element_bytes);
    case Collective::kBroadcast:
      return tree_traffic(tree_children(ranks, rank), bytes);
    case Collective::kBarrier:
      return {ceil_log2(ranks), 0};
    case Collective::kSendRecv:
      return {1, bytes};
  }
  throw_no_algorithm(collective, algorithm);
}

RankTraffic max_traffic(Collective collective, Algorithm algorithm, std::size_t ranks,
                        std::size_t count, std::size_t element_bytes) {
  RankTraffic most;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const RankTraffic one = rank_traffic(collective, algorithm, ranks, rank, count, element_bytes);
    most.messages = std::max(most.messages, one.messages);
    most.bytes_sent = std::max(most.bytes_sent, one.bytes_sent);
  }
  return most;
}

std::uint64_t steps(Collective collective, Algorithm algorithm, std::size_t ranks) {
  const Algorithm resolved = resolve(collective, algorithm);
  if (ranks <= 1) return 0;
  switch (collective) {
    case Collective::kAllReduce:
      return resolved == Algorithm::kTree ? 2 * ceil_log2(ranks) : 2 * (ranks - 1);
    case Collective::kAllGather:
    case Collective::kReduceScatter:
      return ranks - 1;
    case Collective::kBroadcast:
    case Collective::kBarrier:
      return ceil_log2(ranks);
    case Collective::kSendRecv:
      return 1;
  }
  throw_no_algorithm(collective, algorithm);
}

double time_s(Collective collective, Algorithm algorithm, std::size_t ranks, double bytes,
              const Link& link) {
  const auto step_count = static_cast<double>(steps(collective, algorithm, ranks));
  if (step_count == 0) return 0;
  double step_bytes = bytes;
  if (collective == Collective::kBarrier) step_bytes = 0;
  if (resolve(collective, algorithm) == Algorithm::kRing) {
    step_bytes = bytes / static_cast<double>(ranks);
  }
  return step_count * (link.alpha_s + step_bytes * link.beta_s_per_byte);
}

double bus_factor(Collective collective, std::size_t ranks) {
  const auto n = static_cast<double>(ranks);
  switch (collective) {
    case Collective::kAllReduce:
      return 2 * (n - 1) / n;
    case Collective::kAllGather:
    case Collective::kReduceScatter:
      return (n - 1) / n;
    case Collective::kBroadcast:
    case Collective::kBarrier:
    case Collective::kSendRecv:
      return 1;
  }
  return 1;
}

}  // namespace nqd::collectives

#include "collectives/cost_traffic.h"

#include <algorithm>
#include <bit>

#include "collectives/algorithms/pieces.h"

namespace nqd::collectives {
namespace {

// Elements of the chunks first, …, first + length − 1 of n; no wrap.
std::size_t elements_in(std::size_t count, std::size_t n, std::size_t first, std::size_t length) {
  return chunk_of(count, n, first + length).begin - chunk_of(count, n, first).begin;
}

RankTraffic one_message(std::size_t elements, std::size_t element_bytes) {
  return elements == 0 ? RankTraffic{} : RankTraffic{1, elements * element_bytes};
}

// The first 2·(n − m) ranks fold in pairs onto their odd member, so that a power of two remains.
struct Folding {
  explicit Folding(const TrafficCall& call) : m(std::bit_floor(call.ranks)) {
    const std::size_t extra = call.ranks - m;
    const bool paired = call.rank < 2 * extra;
    folded_away = paired && call.rank % 2 == 0;
    hands_back = paired && !folded_away;
    index = paired ? call.rank / 2 : call.rank - extra;
  }

  std::size_t m;
  std::size_t index = 0;     // among the m that go on
  bool folded_away = false;  // sends its vector and waits for the result
  bool hands_back = false;   // returns the result to its partner
};

// What index `v` of `m` sends while the range of chunks that it is responsible for halves.
RankTraffic halving(const TrafficCall& call, std::size_t m, std::size_t v) {
  RankTraffic traffic;
  std::size_t first = 0;
  for (std::size_t half = m / 2; half > 0; half /= 2) {
    const bool upper = v >= first + half;
    const std::size_t given = upper ? first : first + half;
    traffic = traffic + one_message(elements_in(call.count, m, given, half), call.element_bytes);
    if (upper) first += half;
  }
  return traffic;
}

// What index `v` of `m` sends while the block of chunks that it holds doubles.
RankTraffic doubling(const TrafficCall& call, std::size_t m, std::size_t v) {
  RankTraffic traffic;
  for (std::size_t block = 1; block < m; block *= 2) {
    traffic = traffic +
              one_message(elements_in(call.count, m, v / block * block, block), call.element_bytes);
  }
  return traffic;
}

}  // namespace

std::uint64_t ceil_log2(std::size_t n) noexcept {
  return n <= 1 ? 0 : static_cast<std::uint64_t>(std::bit_width(n - 1));
}

RankTraffic ring_pass(const TrafficCall& call, std::size_t skipped) {
  const std::size_t left_out = chunk_of(call.count, call.ranks, skipped).count;
  const std::size_t filled_chunks = std::min(call.count, call.ranks);
  return {filled_chunks - (left_out > 0 ? 1 : 0), (call.count - left_out) * call.element_bytes};
}

RankTraffic ring_all_reduce_traffic(const TrafficCall& call) {
  // Reduce-scatter ends with rank i owning chunk i+1, so it never sends that one; the all-gather
  // pass then ends before the chunk that its right neighbour owned.
  return ring_pass(call, (call.rank + 1) % call.ranks) +
         ring_pass(call, (call.rank + 2) % call.ranks);
}

std::size_t ring_all_reduce_scratch(std::size_t ranks, std::size_t count,
                                    std::size_t element_bytes) {
  return ranks <= 1 ? 0 : ring_scratch_bytes(chunk_of(count, ranks, 0).count, element_bytes);
}

std::size_t direct_all_reduce_scratch(std::size_t ranks, std::size_t count,
                                      std::size_t element_bytes) {
  const std::size_t bytes = count * element_bytes;
  return ranks <= 1 || bytes > kDirectSmallBytes ? 0 : bytes;
}

RankTraffic whole_vectors(const TrafficCall& call, std::uint64_t messages) {
  return call.count == 0 ? RankTraffic{} : RankTraffic{messages, messages * call.bytes()};
}

std::uint64_t tree_children(std::size_t ranks, std::size_t rank) noexcept {
  // rank + 2^k for each 2^k below rank's lowest set bit (every power for the root).
  std::uint64_t children = 0;
  for (std::size_t mask = 1; mask < ranks && (rank & mask) == 0; mask <<= 1) {
    if (rank + mask < ranks) ++children;
  }
  return children;
}

RankTraffic double_tree_all_reduce_traffic(const TrafficCall& call) {
  const std::size_t n = call.ranks;
  // In the in-order tree odd places are leaves; place 0 is the root above 2^⌈log2 n⌉⁻¹. An inner
  // place has a left child, and a right one when any place follows it.
  const auto edges = [n](std::size_t place) -> std::uint64_t {
    if (place == 0) return 1;
    if (place % 2 == 1) return 1;
    return 1 + 1 + (place + 1 < n ? 1 : 0);
  };
  // The second tree is the first one mirrored, or shifted by one when n is odd.
  const std::size_t second = n % 2 == 0 ? n - 1 - call.rank : (call.rank + n - 1) % n;
  RankTraffic traffic;
  for (const auto& [half, place] :
       {std::pair{chunk_of(call.count, 2, 0), call.rank}, {chunk_of(call.count, 2, 1), second}}) {
    if (half.count == 0) continue;
    traffic = traffic + RankTraffic{edges(place), edges(place) * half.count * call.element_bytes};
  }
  return traffic;
}

RankTraffic recursive_doubling_traffic(const TrafficCall& call) {
  const Folding fold(call);
  if (fold.folded_away) return whole_vectors(call, 1);
  return whole_vectors(call, ceil_log2(fold.m) + (fold.hands_back ? 1 : 0));
}

RankTraffic halving_doubling_all_reduce_traffic(const TrafficCall& call) {
  const Folding fold(call);
  if (fold.folded_away) return whole_vectors(call, 1);
  // Nearest partners first: the place's lowest bit is the highest of the chunk that it ends with.
  std::size_t slot = 0;
  for (std::size_t bit = 1; bit < fold.m; bit <<= 1) {
    slot = slot << 1 | ((fold.index & bit) != 0 ? 1 : 0);
  }
  return halving(call, fold.m, slot) + doubling(call, fold.m, slot) +
         whole_vectors(call, fold.hands_back ? 1 : 0);
}

RankTraffic gather_traffic(const TrafficCall& call) {
  if (call.rank == 0) return {};
  return one_message(chunk_of(call.count, call.ranks, call.rank).count, call.element_bytes);
}

RankTraffic doubling_all_gather_traffic(const TrafficCall& call) {
  return doubling(call, call.ranks, call.rank);
}

RankTraffic halving_reduce_scatter_traffic(const TrafficCall& call) {
  return halving(call, call.ranks, call.rank);
}

RankTraffic direct_traffic(Collective collective, const TrafficCall& call) {
  const std::uint64_t peers = call.ranks - 1;
  const bool is_root = call.rank == 0;
  const std::uint64_t chunk =
      chunk_of(call.count, call.ranks, call.rank).count * call.element_bytes;
  const std::uint64_t part =
      line_chunk_of(call.count, call.element_bytes, call.ranks, call.rank).count *
      call.element_bytes;
  const bool small = call.bytes() <= kDirectSmallBytes;
  switch (collective) {
    case Collective::kBroadcast:
      return is_root ? RankTraffic{} : RankTraffic{1, call.bytes()};
    case Collective::kAllGather:
      return {peers, call.bytes() - chunk};
    case Collective::kReduceScatter:
      return small ? RankTraffic{peers, peers * call.bytes()} : RankTraffic{peers, peers * chunk};
    case Collective::kReduce:
      return {peers + (is_root ? 0 : 1), (peers + (is_root ? 0 : 1)) * part};
    case Collective::kAllToAll:
      return {peers, peers * chunk};
    case Collective::kGather:
      return is_root ? RankTraffic{peers, call.bytes() - chunk} : RankTraffic{};
    case Collective::kScatter:
      return is_root ? RankTraffic{} : RankTraffic{1, chunk};
    default:
      return small ? RankTraffic{peers, peers * call.bytes()}
                   : RankTraffic{2 * peers, 2 * peers * part};
  }
}

RankTraffic nvls_traffic(Collective collective, const TrafficCall& call) {
  const RankTraffic own =
      one_message(chunk_of(call.count, call.ranks, call.rank).count, call.element_bytes);
  const RankTraffic all = whole_vectors(call, 1);
  switch (collective) {
    case Collective::kAllReduce:
      return all + own;
    case Collective::kAllGather:
      return own;
    case Collective::kBroadcast:
      return call.rank == 0 ? all : RankTraffic{};
    default:
      return all;
  }
}

}  // namespace nqd::collectives

// The α–β–γ lines of collectives/cost.h.
#include <bit>

#include "collectives/cost_traffic.h"

namespace nqd::collectives {
namespace {

double real(std::uint64_t value) noexcept { return static_cast<double>(value); }

// A pass around a ring of n.
CostTerms ring(double n, bool reduces) noexcept {
  const double share = (n - 1) / n;
  return {n - 1, share, reduces ? share : 0};
}

CostTerms operator+(const CostTerms& a, const CostTerms& b) noexcept {
  return {a.steps + b.steps, a.sent + b.sent, a.reduced + b.reduced};
}

// The same call on `share` of the vector.
CostTerms on_share(const CostTerms& terms, double share) noexcept {
  return {terms.steps, terms.sent * share, terms.reduced * share};
}

CostTerms ring_of(Collective collective, double n) noexcept {
  switch (collective) {
    case Collective::kAllReduce:
      return ring(n, true) + ring(n, false);
    case Collective::kReduceScatter:
      return ring(n, true);
    case Collective::kBroadcast:
      return {n - 1, 1, 0};
    case Collective::kReduce:
      return {n - 1, 1, 1};
    default:
      return ring(n, false);
  }
}

CostTerms tree_of(Collective collective, double depth) noexcept {
  switch (collective) {
    case Collective::kAllReduce:
      return {2 * depth, 2 * depth, depth};
    case Collective::kReduce:
      return {depth, depth, depth};
    default:
      return {depth, depth, 0};
  }
}

CostTerms double_tree(std::size_t n, double depth) noexcept {
  // Small trees lack the rank that has a parent and two children in one and is a leaf in the other.
  const double halves = n == 2 ? 2 : n == 3 ? 3 : 4;
  return {2 * depth, halves / 2, n == 2 ? 0.5 : 1};
}

CostTerms recursive_doubling(std::size_t n) noexcept {
  const double rounds = real(ceil_log2(std::bit_floor(n)));
  const double fold = std::has_single_bit(n) ? 0 : 1;
  return {rounds + 2 * fold, rounds + 2 * fold, rounds + fold};
}

CostTerms halving_doubling(Collective collective, std::size_t n) noexcept {
  const std::size_t m = std::bit_floor(n);
  const double rounds = real(ceil_log2(m));
  const double share = (real(m) - 1) / real(m);
  const double fold = std::has_single_bit(n) ? 0 : 1;
  if (collective == Collective::kAllReduce) {
    return {2 * rounds + 2 * fold, 2 * share + 2 * fold, share + fold};
  }
  return {rounds, share, collective == Collective::kReduceScatter ? share : 0};
}

CostTerms bruck(Collective collective, std::size_t n) noexcept {
  const double rounds = real(ceil_log2(n));
  if (collective == Collective::kAllGather) return {rounds, (real(n) - 1) / real(n), 0};
  // Bits set in the numbers below n, bit by bit.
  std::size_t blocks = 0;
  for (std::size_t bit = 1; bit < n; bit *= 2) {
    const std::size_t rest = n % (2 * bit);
    blocks += n / (2 * bit) * bit + (rest > bit ? rest - bit : 0);
  }
  return {rounds, real(blocks) / real(n), 0};
}

CostTerms direct(Collective collective, double n) noexcept {
  if (collective == Collective::kBroadcast) return {2, 1, 0};
  if (collective == Collective::kReduce) return {2, 1, (n - 1) / n};
  const CostTerms terms = ring_of(collective, n);
  return {2, terms.sent, terms.reduced};
}

LevelTerms hierarchical(Collective collective, double g, double k) noexcept {
  if (collective == Collective::kAllToAll) return {ring(g, false), ring(k, false)};
  return {ring_of(collective, g), on_share(ring_of(collective, k), 1 / g)};
}

CostTerms flat_terms(Collective collective, Algorithm algorithm, std::size_t n) noexcept {
  const double depth = real(ceil_log2(n));
  if (collective == Collective::kBarrier) return {depth, 0, 0};
  if (collective == Collective::kSendRecv) return {1, 1, 0};
  if (algorithm == Algorithm::kLinear) return {1, (real(n) - 1) / real(n), 0};
  switch (algorithm) {
    case Algorithm::kTree:
      return tree_of(collective, depth);
    case Algorithm::kDoubleBinaryTree:
      return double_tree(n, depth);
    case Algorithm::kRecursiveDoubling:
      return recursive_doubling(n);
    case Algorithm::kHalvingDoubling:
      return halving_doubling(collective, n);
    case Algorithm::kNvls:
      return collective == Collective::kAllReduce ? CostTerms{2, 1 + 1 / real(n), 0}
                                                  : CostTerms{1, 1, 0};
    case Algorithm::kBruck:
      return bruck(collective, n);
    case Algorithm::kDirect:
      return direct(collective, real(n));
    default:
      return ring_of(collective, real(n));
  }
}

}  // namespace

LevelTerms cost_terms(Collective collective, Algorithm algorithm, std::size_t ranks,
                      std::size_t ranks_per_node) noexcept {
  if (ranks <= 1 || !has_cost(collective, algorithm, ranks, ranks_per_node)) return {};
  const Algorithm chosen = *known_algorithm(collective, algorithm);
  if (chosen == Algorithm::kHierarchical) {
    return hierarchical(collective, real(ranks_per_node), real(ranks / ranks_per_node));
  }
  return {flat_terms(collective, chosen, ranks), {}};
}

std::string_view name(Protocol protocol) {
  switch (protocol) {
    case Protocol::kSimple:
      return "simple";
    case Protocol::kLL:
      return "ll";
    case Protocol::kLL128:
      return "ll128";
  }
  return "?";
}

double payload_share(Protocol protocol) noexcept {
  switch (protocol) {
    case Protocol::kLL:
      return 0.5;
    case Protocol::kLL128:
      return 120.0 / 128;
    case Protocol::kSimple:
      break;
  }
  return 1;
}

Link with_protocol(const Link& link, Protocol protocol) noexcept {
  Link payload = link;
  payload.beta_s_per_byte /= payload_share(protocol);
  return payload;
}

}  // namespace nqd::collectives

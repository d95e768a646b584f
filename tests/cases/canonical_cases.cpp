#include "tests/cases/canonical_cases.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <random>

#include "collectives/canonical/canonical.h"
#include "collectives/element.h"

namespace nqd::collectives {
namespace {

constexpr std::size_t kMostContributions = 40;

using Bytes = std::vector<std::byte>;
using Random = std::mt19937_64;

template <typename Integer>
void store_bits(std::byte* to, Integer bits) {
  std::memcpy(to, &bits, sizeof bits);
}

// A NaN whose payload tells who made it.
void store_nan(std::byte* to, DType type, std::uint64_t payload) {
  payload %= 50;
  if (type == DType::kFloat64) store_bits(to, 0x7ff8000000000001ull + payload);
  if (type == DType::kFloat32) store_bits(to, 0x7fc00001u + static_cast<std::uint32_t>(payload));
  if (type == DType::kBFloat16) store_bits(to, static_cast<std::uint16_t>(0x7fc1u + payload));
  if (type == DType::kFloat16) store_bits(to, static_cast<std::uint16_t>(0x7e01u + payload));
}

// Magnitudes so far apart that every addition rounds; some elements hold nothing but specials.
void store_contribution(std::byte* to, DType type, std::size_t element, Random& random) {
  const std::uint64_t bits = random();
  const int spread = type == DType::kFloat16 ? 10 : 24;
  const int exponent = static_cast<int>(bits % unsigned(2 * spread)) - spread;
  const double sign = (bits >> 20 & 1) != 0 ? -1 : 1;
  const double value = sign * std::ldexp(1 + static_cast<double>(bits >> 32) * 0x1p-32, exponent);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  switch (element % 61) {
    case 5:
      return bits % 3 == 0 ? store_nan(to, type, bits >> 8) : store_element(to, type, value);
    case 6:
      return store_element(to, type, bits % 4 == 0 ? sign * kInfinity : value);
    case 7:
      return store_element(to, type, -0.0);
    case 8:
      // Subnormal in the type.
      return store_element(
          to, type,
          sign * std::ldexp(static_cast<double>(bits % 127 + 1), type == DType::kFloat64   ? -1074
                                                                 : type == DType::kFloat16 ? -24
                                                                 : type == DType::kFloat32 ? -149
                                                                                           : -133));
    default:
      return store_element(to, type, value);
  }
}

std::vector<Bytes> contributions(DType type, std::size_t total, std::size_t count,
                                 std::uint64_t seed) {
  std::vector<Bytes> all(total, Bytes(count * size_bytes(type)));
  Random random(seed);
  for (Bytes& one : all) {
    for (std::size_t i = 0; i < count; ++i) {
      store_contribution(one.data() + i * size_bytes(type), type, i, random);
    }
  }
  return all;
}

// The definition, from the root down: a node of level k over indices of which some may not exist.
template <typename Value>
std::optional<Value> node(const std::vector<Value>& leaves, unsigned level, std::size_t index) {
  if (index << level >= leaves.size()) return std::nullopt;
  if (level == 0) return leaves[index];
  const auto left = node(leaves, level - 1, 2 * index);
  const auto right = node(leaves, level - 1, 2 * index + 1);
  return right ? *left + *right : *left;
}

struct Reference {
  Bytes sum;
  Bytes average;
  std::uint64_t order_matters = 0;
};

template <typename Value>
Reference reference_of(const std::vector<Bytes>& all, DType type, std::size_t count) {
  constexpr unsigned kLevel = 6;
  static_assert(kMostContributions <= 1u << kLevel);
  volatile Value infinity = std::numeric_limits<Value>::infinity();
  const Value nan = infinity - infinity;
  Reference result{Bytes(count * sizeof(Value)), Bytes(count * sizeof(Value)), 0};
  std::vector<Value> leaves(all.size());
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t index = 0; index < all.size(); ++index) {
      leaves[index] =
          static_cast<Value>(load_element(all[index].data() + i * size_bytes(type), type));
    }
    Value sum = *node(leaves, kLevel, 0);
    Value in_turn = leaves[0];
    for (std::size_t index = 1; index < leaves.size(); ++index) in_turn += leaves[index];
    if (std::isnan(sum)) sum = nan;
    const Value average = sum / static_cast<Value>(all.size());
    if (!std::isnan(sum) && sum != in_turn) ++result.order_matters;
    std::memcpy(result.sum.data() + i * sizeof(Value), &sum, sizeof(Value));
    std::memcpy(result.average.data() + i * sizeof(Value), &average, sizeof(Value));
  }
  return result;
}

// Contiguous ranges in the order of ranks: random ends, which make empty ranks, or near-equal ones.
std::vector<IndexRange> split(std::size_t total, std::size_t ranks, bool equal, Random& random) {
  std::vector<std::size_t> ends;
  for (std::size_t rank = 0; rank + 1 < ranks; ++rank) {
    ends.push_back(equal ? chunk_of(total, ranks, rank + 1).begin : random() % (total + 1));
  }
  std::sort(ends.begin(), ends.end());
  ends.push_back(total);
  std::vector<IndexRange> ranges;
  for (const std::size_t end : ends) {
    ranges.push_back({ranges.empty() ? 0 : ranges.back().end, end});
  }
  return ranges;
}

class Cases {
 public:
  Cases(Communicator& world, std::uint64_t seed)
      : world_(world),
        ranks_(static_cast<std::size_t>(world.size())),
        rank_(static_cast<std::size_t>(world.rank())),
        random_(seed) {}

  void one_sum(DType type, std::size_t count);
  CanonicalReport take_report() { return std::move(report_); }

 private:
  void one_split(const std::vector<Bytes>& all, DType type, std::size_t count,
                 const Reference& reference, const ContributionLayout& layout);
  std::vector<Algorithm> algorithms(Collective collective, const ContributionLayout& layout) const;
  void accumulate(Accumulator& mine, const std::vector<Bytes>& all, DType type);
  void reduce_by(Collective collective, Algorithm algorithm, const ContributionLayout& layout,
                 Accumulator& mine, const Reference& reference, std::span<std::byte> out);
  void check(bool holds, const std::string& what) {
    if (!holds && report_.failures.size() < 5) report_.failures.push_back(what);
  }

  Communicator& world_;
  std::size_t ranks_;
  std::size_t rank_;
  Random random_;  // in step on all ranks
  Scratch scratch_;
  CanonicalReport report_;
  std::string what_;
};

void Cases::one_sum(DType type, std::size_t count) {
  // Every other total suits an even layout.
  std::size_t total = 1 + random_() % kMostContributions;
  if (random_() % 2 == 0) total = ranks_ << random_() % 3;
  const auto all = contributions(type, total, count, random_());
  const Reference reference = type == DType::kFloat64 ? reference_of<double>(all, type, count)
                                                      : reference_of<float>(all, type, count);
  report_.order_matters += reference.order_matters;
  for (const bool equal : {true, false, false}) {
    const ContributionLayout given(split(total, ranks_, equal, random_));
    const ContributionLayout layout = agree_layout(world_, given.range(rank_));
    what_ = std::to_string(count) + " of " + std::string(name(type)) + ", " +
            std::to_string(total) + " contributions on " + std::to_string(ranks_) + " ranks";
    check(layout.total() == total, what_ + ": layout");
    one_split(all, type, count, reference, layout);
  }
}

std::vector<Algorithm> Cases::algorithms(Collective collective,
                                         const ContributionLayout& layout) const {
  std::vector<Algorithm> found = {Algorithm::kAuto, Algorithm::kPairwise};
  if (world_.chosen(Collective::kAllReduce, Algorithm::kAuto) == Algorithm::kDirect) {
    found.push_back(Algorithm::kDirect);
  }
  if (collective == Collective::kAllReduce && layout.is_even()) {
    found.push_back(Algorithm::kTree);
    if (std::has_single_bit(ranks_)) {
      found.push_back(Algorithm::kRecursiveDoubling);
      found.push_back(Algorithm::kHalvingDoubling);
    }
  }
  return found;
}

void Cases::accumulate(Accumulator& mine, const std::vector<Bytes>& all, DType type) {
  for (std::size_t i = mine.range().begin; i < mine.range().end; ++i) mine.add(all[i], type);
  check(std::ranges::equal(mine.nodes(), maximal_nodes(mine.range(), mine.total())),
        what_ + ": nodes");
}

void Cases::one_split(const std::vector<Bytes>& all, DType type, std::size_t count,
                      const Reference& reference, const ContributionLayout& layout) {
  const DType wide = type == DType::kFloat64 ? type : DType::kFloat32;
  MemoryLedger ledger;
  Accumulator mine(layout.range(rank_), layout.total(), count, wide, &ledger);
  accumulate(mine, all, type);
  check(ledger.peak_total_bytes() ==
            peak_vectors(mine.range(), mine.total()) * count * size_bytes(wide),
        what_ + ": memory of the accumulator");
  Bytes out(count * size_bytes(wide));
  const Chunk own = chunk_of(count, ranks_, rank_);
  for (const Algorithm algorithm : algorithms(Collective::kReduceScatter, layout)) {
    reduce_by(Collective::kReduceScatter, algorithm, layout, mine, reference,
              std::span(out).subspan(own.begin * size_bytes(wide), own.count * size_bytes(wide)));
  }
  for (const Algorithm algorithm : algorithms(Collective::kAllReduce, layout)) {
    reduce_by(Collective::kAllReduce, algorithm, layout, mine, reference, out);
    if (mine.nodes().empty()) {
      reduce_by(Collective::kAllReduce, algorithm, layout, mine, reference, out);
    } else {
      reduce_by(Collective::kAllReduce, algorithm, layout, mine, reference, mine.vector(0));
      mine.restart();
      accumulate(mine, all, type);
    }
  }
}

void Cases::reduce_by(Collective collective, Algorithm algorithm, const ContributionLayout& layout,
                      Accumulator& mine, const Reference& reference, std::span<std::byte> out) {
  const ReduceOp op = random_() % 2 == 0 ? ReduceOp::kSum : ReduceOp::kAvg;
  const std::size_t element = size_bytes(mine.type());
  const bool in_place = !mine.nodes().empty() && out.data() == mine.vector(0).data();
  if (!in_place) std::ranges::fill(out, std::byte{0x5a});
  std::span<const std::byte> expected = op == ReduceOp::kSum ? reference.sum : reference.average;
  world_.reset_traffic();
  if (collective == Collective::kAllReduce) {
    canonical_all_reduce(world_, scratch_, layout, mine, out, op, algorithm);
  } else {
    canonical_reduce_scatter(world_, scratch_, layout, mine, out, op, algorithm);
    const Chunk own = chunk_of(mine.count(), ranks_, rank_);
    expected = expected.subspan(own.begin * element, own.count * element);
  }
  const std::string what = what_ + ", " + std::string(name(collective)) + " by " +
                           std::string(name(algorithm)) + ", " + std::string(name(op));
  check(std::ranges::equal(out, expected), what);
  ++report_.sums;
  const bool direct = world_.chosen(collective, Algorithm::kAuto) == Algorithm::kDirect;
  const RankTraffic said = canonical_traffic(
      collective, layout,
      canonical_choice(collective, layout, mine.count() * element, mine.type(), direct, algorithm),
      rank_, mine.count(), element);
  RankTraffic counted;
  for (const auto& [key, count] : world_.traffic()) {
    counted.messages += count.messages;
    counted.bytes_sent += count.bytes_sent;
  }
  check(counted.messages == said.messages && counted.bytes_sent == said.bytes_sent,
        what + ": sent " + std::to_string(counted.bytes_sent) + " bytes in " +
            std::to_string(counted.messages) + " messages, not " + std::to_string(said.bytes_sent) +
            " in " + std::to_string(said.messages));
}

}  // namespace

CanonicalReport run_canonical_cases(Communicator& world, std::uint64_t seed, int cases) {
  Cases run(world, seed);
  for (const DType type : {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16}) {
    for (const std::size_t count : {0, 1, 7, 1000, 4099}) {
      for (int i = 0; i < cases; ++i) run.one_sum(type, count);
    }
  }
  return run.take_report();
}

}  // namespace nqd::collectives

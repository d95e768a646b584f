#include "collectives/bench/pair_matrix.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <limits>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "base/units.h"

namespace nqd::collectives {
namespace {

using Clock = std::chrono::steady_clock;

void round_trip(Communicator& world, int peer, bool leads, std::span<std::byte> data) {
  if (leads) world.send(data, peer);
  world.receive(data, peer);
  if (!leads) world.send(data, peer);
}

struct Count {
  std::int32_t iterations = 1;
  std::int32_t batches = 1;
};

// On a slow link several batches would take minutes: the leader cuts them to about a second, and
// tells its peer.
void agree_on_count(Communicator& world, int peer, bool leads, double trip_s, Count& count) {
  constexpr double kPatienceS = 1;
  if (leads && trip_s * count.iterations * count.batches > kPatienceS) {
    const auto fits = static_cast<std::int32_t>(kPatienceS / trip_s);
    count = {std::clamp(fits, 1, count.iterations), 1};
  }
  const auto bytes = std::as_writable_bytes(std::span(&count, 1));
  leads ? world.send(bytes, peer) : world.receive(bytes, peer);
}

// On both ranks of a pair: the mean of half a round trip, of the best batch.
double half_round_trip(Communicator& world, int peer, bool leads, std::span<std::byte> data,
                       Count count) {
  constexpr int kWarmup = 2;
  auto start = Clock::now();
  const auto elapsed_s = [&] {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  for (int i = 0; i < kWarmup; ++i) round_trip(world, peer, leads, data);
  if (count.batches > 1) agree_on_count(world, peer, leads, elapsed_s() / kWarmup, count);
  double best_s = std::numeric_limits<double>::infinity();
  for (int batch = 0; batch < count.batches; ++batch) {
    start = Clock::now();
    for (int i = 0; i < count.iterations; ++i) round_trip(world, peer, leads, data);
    best_s = std::min(best_s, elapsed_s() / count.iterations / 2);
  }
  return best_s;
}

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

struct Medians {
  double latency_s = 0;
  double bandwidth_gbps = 0;
};

using Pairs = std::vector<const PairRow*>;

Medians medians_of_others(const Pairs& kind, const PairRow* pair) {
  std::vector<double> latencies;
  std::vector<double> bandwidths;
  for (const PairRow* other : kind) {
    if (other == pair) continue;
    latencies.push_back(other->latency_s);
    bandwidths.push_back(other->bandwidth_gbps);
  }
  return {median_of(latencies), median_of(bandwidths)};
}

bool is_slow(const PairRow& pair, const Medians& others, double latency_floor_s) {
  return pair.bandwidth_gbps * kSlowPair < others.bandwidth_gbps ||
         pair.latency_s > kSlowPair * others.latency_s + latency_floor_s;
}

// The one rank that every slow pair has and that is in no pair as the others; -1 without one.
int common_rank(const Pairs& kind, const Pairs& slow) {
  const auto has = [](const PairRow* pair, int rank) { return pair->a == rank || pair->b == rank; };
  for (const int rank : {slow.front()->a, slow.front()->b}) {
    const bool in_all =
        std::all_of(slow.begin(), slow.end(), [&](const PairRow* pair) { return has(pair, rank); });
    const auto pairs = std::count_if(kind.begin(), kind.end(),
                                     [&](const PairRow* pair) { return has(pair, rank); });
    if (in_all && pairs > 1 && pairs == static_cast<std::ptrdiff_t>(slow.size())) return rank;
  }
  return -1;
}

std::string described(const PairRow& pair) {
  std::array<char, 96> text{};
  std::snprintf(text.data(), text.size(), "%d-%d has %s and %.3g GB/s", pair.a, pair.b,
                format_seconds(pair.latency_s).c_str(), pair.bandwidth_gbps);
  return text.data();
}

std::string described(const Medians& medians) {
  std::array<char, 96> text{};
  std::snprintf(text.data(), text.size(), "the median of the others %s and %.3g GB/s",
                format_seconds(medians.latency_s).c_str(), medians.bandwidth_gbps);
  return text.data();
}

// Of `kind`, those that stand out. While one rank makes most pairs slow the median of the others is
// slow too: the rank's pairs are then compared with those that it has no part in.
Pairs slow_pairs(const Pairs& kind, double latency_floor_s) {
  Pairs slow;
  for (const PairRow* pair : kind) {
    if (is_slow(*pair, medians_of_others(kind, pair), latency_floor_s)) slow.push_back(pair);
  }
  if (!slow.empty()) return slow;
  std::set<int> ranks;
  for (const PairRow* pair : kind) ranks.insert({pair->a, pair->b});
  for (const int rank : ranks) {
    Pairs with;
    Pairs without;
    for (const PairRow* pair : kind) {
      (pair->a == rank || pair->b == rank ? with : without).push_back(pair);
    }
    if (without.empty() || with.size() < 2) continue;
    const Medians others = medians_of_others(without, nullptr);
    if (std::all_of(with.begin(), with.end(),
                    [&](const PairRow* pair) { return is_slow(*pair, others, latency_floor_s); })) {
      return with;
    }
  }
  return slow;
}

void find_in_kind(const Pairs& kind, double latency_floor_s, std::vector<SlowPairs>& found) {
  if (kind.size() < 3) return;
  const Pairs slow = slow_pairs(kind, latency_floor_s);
  if (slow.empty()) return;
  Pairs others;
  std::copy_if(kind.begin(), kind.end(), std::back_inserter(others), [&](const PairRow* pair) {
    return std::find(slow.begin(), slow.end(), pair) == slow.end();
  });
  SlowPairs result;
  for (const PairRow* pair : slow) result.pairs.push_back(*pair);
  result.compared = kind.size();
  result.rank = common_rank(kind, slow);
  if (!others.empty()) {
    const Medians usual = medians_of_others(others, nullptr);
    result.usual_latency_s = usual.latency_s;
    result.usual_bandwidth_gbps = usual.bandwidth_gbps;
  }
  found.push_back(std::move(result));
}

void judge_kind(const SlowPairs& slow, const std::vector<std::string>& hosts,
                std::vector<Verdict>& verdicts) {
  const PairRow& worst = *std::min_element(
      slow.pairs.begin(), slow.pairs.end(),
      [](const PairRow& a, const PairRow& b) { return a.bandwidth_gbps < b.bandwidth_gbps; });
  const bool one_rank = slow.rank >= 0;
  std::string who = "pair " + std::to_string(worst.a) + "-" + std::to_string(worst.b) + " (" +
                    hosts[static_cast<std::size_t>(worst.a)] + ", " +
                    hosts[static_cast<std::size_t>(worst.b)] + ")";
  if (one_rank) {
    who = "rank " + std::to_string(slow.rank) + " on host " +
          hosts[static_cast<std::size_t>(slow.rank)] + ", in all of its pairs";
  }
  const bool some_others = slow.pairs.size() < slow.compared;
  verdicts.push_back(
      {"slow-pair", "warning",
       slow.pairs.size() * 2 < slow.compared || one_rank ? "likely" : "suspected",
       "slow: " + who + "; " + std::to_string(slow.pairs.size()) + " of " +
           std::to_string(slow.compared) + " pairs; " + described(worst) +
           (some_others ? ", " + described(Medians{slow.usual_latency_s, slow.usual_bandwidth_gbps})
                        : ""),
       "latency <= 2 x and bandwidth >= 1/2 of the median of the other pairs of one kind",
       one_rank ? "that rank's host, adapter, port or CPU is slower than its peers'"
                : "a link or switch port between the two is slower than the others",
       one_rank ? "look at other work on that host, its binding, adapter and cable; run without it"
                : "look at the cable and switch port between the two hosts; run without them"});
}

}  // namespace

std::vector<PairRow> run_pairs(Communicator& world, const PairRounds& rounds,
                               const PairOptions& options) {
  std::vector<std::byte> data(
      std::max<std::size_t>(kPairSmallBytes, static_cast<std::size_t>(options.large_bytes)),
      std::byte{1});
  const std::span<std::byte> large(data.data(), options.large_bytes);
  std::vector<PairRow> pairs;
  std::vector<double> times;  // latency and time of a large message of each pair; 0 elsewhere
  for (const auto& round : rounds) {
    world.barrier();
    for (const auto& [a, b] : round) {
      pairs.push_back({a, b, 0, 0});
      times.resize(2 * pairs.size());
      if (world.rank() != a && world.rank() != b) continue;
      const bool leads = world.rank() == a;
      const int peer = leads ? b : a;
      const double small_s = half_round_trip(world, peer, leads, large.first(kPairSmallBytes),
                                             {options.small_iterations, options.batches});
      const double large_s =
          half_round_trip(world, peer, leads, large, {options.large_iterations, options.batches});
      if (!leads) continue;
      times[2 * pairs.size() - 2] = small_s;
      times[2 * pairs.size() - 1] = large_s;
    }
  }
  const auto bytes = std::as_writable_bytes(std::span(times));
  world.all_reduce(bytes, bytes, DType::kFloat64, ReduceOp::kMax);
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    pairs[i].latency_s = times[2 * i];
    pairs[i].bandwidth_gbps = static_cast<double>(options.large_bytes) / times[2 * i + 1] / 1e9;
  }
  return pairs;
}

std::vector<PairRow> run_pair_matrix(Communicator& world, const PairOptions& options) {
  PairRounds rounds;
  for (int a = 0; a < world.size(); ++a) {
    for (int b = a + 1; b < world.size(); ++b) rounds.push_back({{a, b}});
  }
  return run_pairs(world, rounds, options);
}

std::vector<SlowPairs> find_slow_pairs(const std::vector<PairRow>& pairs,
                                       const std::vector<std::string>& hosts,
                                       double latency_floor_s) {
  Pairs inside;
  Pairs across;
  for (const PairRow& pair : pairs) {
    const bool same =
        hosts[static_cast<std::size_t>(pair.a)] == hosts[static_cast<std::size_t>(pair.b)];
    (same ? inside : across).push_back(&pair);
  }
  std::vector<SlowPairs> found;
  find_in_kind(inside, latency_floor_s, found);
  find_in_kind(across, latency_floor_s, found);
  return found;
}

void judge_pairs(const std::vector<PairRow>& pairs, const std::vector<std::string>& hosts,
                 std::vector<Verdict>& verdicts) {
  for (const SlowPairs& slow : find_slow_pairs(pairs, hosts)) judge_kind(slow, hosts, verdicts);
}

}  // namespace nqd::collectives

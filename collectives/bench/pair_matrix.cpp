#include "collectives/bench/pair_matrix.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <set>
#include <span>
#include <string>

#include "base/units.h"

namespace nqd::collectives {
namespace {

using Clock = std::chrono::steady_clock;

// On both ranks of a pair: the mean of half a round trip.
double half_round_trip(Communicator& world, int peer, bool leads, std::span<std::byte> data,
                       int iterations) {
  constexpr int kWarmup = 2;
  auto start = Clock::now();
  for (int i = -kWarmup; i < iterations; ++i) {
    if (i == 0) start = Clock::now();
    if (leads) {
      world.send(data, peer);
      world.receive(data, peer);
    } else {
      world.receive(data, peer);
      world.send(data, peer);
    }
  }
  return std::chrono::duration<double>(Clock::now() - start).count() / iterations / 2;
}

// A pair is slow at this many times the median latency of the others, or at less than its inverse
// of their bandwidth: twice what measurements of equal pairs on a shared host differ by.
constexpr double kSlowPair = 2;

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

bool is_slow(const PairRow& pair, const Medians& others) {
  return pair.bandwidth_gbps * kSlowPair < others.bandwidth_gbps ||
         pair.latency_s > kSlowPair * others.latency_s;
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
Pairs slow_pairs(const Pairs& kind) {
  Pairs slow;
  for (const PairRow* pair : kind) {
    if (is_slow(*pair, medians_of_others(kind, pair))) slow.push_back(pair);
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
                    [&](const PairRow* pair) { return is_slow(*pair, others); })) {
      return with;
    }
  }
  return slow;
}

void judge_kind(const Pairs& kind, const std::vector<std::string>& hosts,
                std::vector<Verdict>& verdicts) {
  if (kind.size() < 3) return;
  const Pairs slow = slow_pairs(kind);
  if (slow.empty()) return;
  const PairRow& worst = **std::min_element(
      slow.begin(), slow.end(),
      [](const PairRow* a, const PairRow* b) { return a->bandwidth_gbps < b->bandwidth_gbps; });
  Pairs others;
  std::copy_if(kind.begin(), kind.end(), std::back_inserter(others), [&](const PairRow* pair) {
    return std::find(slow.begin(), slow.end(), pair) == slow.end();
  });
  const int rank = common_rank(kind, slow);
  std::string who = "pair " + std::to_string(worst.a) + "-" + std::to_string(worst.b) + " (" +
                    hosts[static_cast<std::size_t>(worst.a)] + ", " +
                    hosts[static_cast<std::size_t>(worst.b)] + ")";
  if (rank >= 0) {
    who = "rank " + std::to_string(rank) + " on host " + hosts[static_cast<std::size_t>(rank)] +
          ", in all of its pairs";
  }
  verdicts.push_back(
      {"slow-pair", "warning", slow.size() * 2 < kind.size() || rank >= 0 ? "likely" : "suspected",
       "slow: " + who + "; " + std::to_string(slow.size()) + " of " + std::to_string(kind.size()) +
           " pairs; " + described(worst) +
           (others.empty() ? "" : ", " + described(medians_of_others(others, nullptr))),
       "latency <= 2 x and bandwidth >= 1/2 of the median of the other pairs of one kind",
       rank >= 0 ? "that rank's host, adapter, port or CPU is slower than its peers'"
                 : "a link or switch port between the two is slower than the others",
       rank >= 0 ? "look at other work on that host, its binding, adapter and cable; run without it"
                 : "look at the cable and switch port between the two hosts; run without them"});
}

}  // namespace

std::vector<PairRow> run_pair_matrix(Communicator& world, const PairOptions& options) {
  std::vector<std::byte> data(
      std::max<std::size_t>(kPairSmallBytes, static_cast<std::size_t>(options.large_bytes)),
      std::byte{1});
  const std::span<std::byte> large(data.data(), options.large_bytes);
  std::vector<PairRow> pairs;
  for (int a = 0; a < world.size(); ++a) {
    for (int b = a + 1; b < world.size(); ++b) {
      std::array<double, 2> times{};
      world.barrier();
      if (world.rank() == a || world.rank() == b) {
        const bool leads = world.rank() == a;
        const int peer = leads ? b : a;
        times[0] = half_round_trip(world, peer, leads, large.first(kPairSmallBytes),
                                   options.small_iterations);
        times[1] = half_round_trip(world, peer, leads, large, options.large_iterations);
      }
      world.broadcast(std::as_writable_bytes(std::span(times)), a);
      pairs.push_back({a, b, times[0], static_cast<double>(options.large_bytes) / times[1] / 1e9});
    }
  }
  return pairs;
}

void judge_pairs(const std::vector<PairRow>& pairs, const std::vector<std::string>& hosts,
                 std::vector<Verdict>& verdicts) {
  Pairs inside;
  Pairs across;
  for (const PairRow& pair : pairs) {
    const bool same =
        hosts[static_cast<std::size_t>(pair.a)] == hosts[static_cast<std::size_t>(pair.b)];
    (same ? inside : across).push_back(&pair);
  }
  judge_kind(inside, hosts, verdicts);
  judge_kind(across, hosts, verdicts);
}

}  // namespace nqd::collectives

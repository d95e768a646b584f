// `nqd bench pair-matrix`: every pair of ranks alone, to find the slow link among many.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "collectives/bench/bench.h"
#include "collectives/bench/probe_rows.h"
#include "collectives/communicator.h"

namespace nqd::collectives {

struct PairOptions {
  std::uint64_t large_bytes = std::uint64_t{4} << 20;
  int small_iterations = 200;
  int large_iterations = 20;
  // A figure is the best of so many means over these iterations; several are cut to about a second.
  int batches = 1;
};

// Pairs (a, b), a < b, of which those of one round share no rank and are measured at the same time.
using PairRounds = std::vector<std::vector<std::pair<int, int>>>;

// Collective; `rounds` are the same on all ranks. Round after round; every rank gets all pairs, in
// the order of `rounds`.
std::vector<PairRow> run_pairs(Communicator& world, const PairRounds& rounds,
                               const PairOptions& options);
// Collective. Every pair a < b, in that order, one after the other; every rank gets all of them.
std::vector<PairRow> run_pair_matrix(Communicator& world, const PairOptions& options);

// Twice what measurements of equal pairs on a shared host differ by.
inline constexpr double kSlowPair = 2;
// Pairs of one kind (of one host, or across hosts) that stand out of the others of their kind.
struct SlowPairs {
  std::vector<PairRow> pairs;
  std::size_t compared = 0;  // pairs of the kind
  int rank = -1;  // that all of `pairs` have, and that is in no pair as the others; -1 without one
  // Medians of the pairs that do not stand out.
  double usual_latency_s = 0;
  double usual_bandwidth_gbps = 0;
};
// Slow: a latency above kSlowPair times the median of the others of the kind plus
// `latency_floor_s`, or a bandwidth below 1/kSlowPair of it. While one rank makes most pairs slow
// its pairs are compared with those that it has no part in. At least three pairs of a kind are
// compared; `hosts` by rank. At most one entry a kind.
std::vector<SlowPairs> find_slow_pairs(const std::vector<PairRow>& pairs,
                                       const std::vector<std::string>& hosts,
                                       double latency_floor_s = 0);

// "slow-pair" when pairs are slower than the median of the other pairs of their kind (of one host,
// or across hosts, as `hosts` says by rank). When all slow pairs have a rank in common, and no pair
// of that rank is as the others, that rank is named. At least three pairs of a kind are compared.
void judge_pairs(const std::vector<PairRow>& pairs, const std::vector<std::string>& hosts,
                 std::vector<Verdict>& verdicts);

}  // namespace nqd::collectives

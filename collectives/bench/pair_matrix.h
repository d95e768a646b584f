// `nqd bench pair-matrix`: every pair of ranks alone, to find the slow link among many.
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/bench/bench.h"
#include "collectives/bench/probe_rows.h"
#include "collectives/communicator.h"

namespace nqd::collectives {

struct PairOptions {
  std::uint64_t large_bytes = std::uint64_t{4} << 20;
  int small_iterations = 200;
  int large_iterations = 20;
};

// Collective. Every pair a < b, in that order, one after the other; every rank gets all of them.
std::vector<PairRow> run_pair_matrix(Communicator& world, const PairOptions& options);

// "slow-pair" when pairs are slower than the median of the other pairs of their kind (of one host,
// or across hosts, as `hosts` says by rank). When all slow pairs have a rank in common, and no pair
// of that rank is as the others, that rank is named. At least three pairs of a kind are compared.
void judge_pairs(const std::vector<PairRow>& pairs, const std::vector<std::string>& hosts,
                 std::vector<Verdict>& verdicts);

}  // namespace nqd::collectives

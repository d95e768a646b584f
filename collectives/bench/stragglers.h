// `nqd bench stragglers`: which rank comes late to a collective after equal work.
#pragma once

#include <string>
#include <vector>

#include "collectives/bench/bench.h"
#include "collectives/bench/probe_rows.h"
#include "collectives/communicator.h"

namespace nqd::collectives {

struct StragglerOptions {
  double compute_s = 0.01;  // of an iteration, on the median rank
  int iterations = 50;
};

// Collective; every rank gets all rows. The work of an iteration is a fixed count of dependent
// operations that takes the median rank compute_s; after it every rank notes its time of arrival
// and enters an all_reduce. Clocks of other hosts than rank 0's are corrected by the round trip of
// the least delay (as NTP does); ranks of one host read one clock.
std::vector<StragglerRow> run_stragglers(Communicator& world, const StragglerOptions& options);

// The rows that arrivals give: arrivals[iteration][rank], seconds on one clock.
std::vector<StragglerRow> straggler_rows(const std::vector<std::vector<double>>& arrivals,
                                         const std::vector<std::string>& hosts);

// "slow-rank" when one rank is late by more than a tenth of the work beyond the median of the
// others, and comes last in more iterations than halfway between chance and always.
void judge_stragglers(const std::vector<StragglerRow>& rows, double compute_s,
                      std::vector<Verdict>& verdicts);

}  // namespace nqd::collectives

// Two sweeps beside each other, row by row: what changed, and whether chance explains it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "collectives/bench/bench.h"

namespace nqd::collectives {

// Two-sided p of the Mann-Whitney U test that two samples come from one distribution, by the normal
// approximation with correction for ties and continuity (Mann and Whitney, 1947); 1 when either is
// empty or all values are equal. Each sample should hold 8 or more.
double mann_whitney_p(std::span<const double> a, std::span<const double> b);

// A row of the new sweep and the row of the old one with the same collective, backend, algorithm,
// placement, buffers (cold or not), type, operator, bytes and ranks.
struct RowChange {
  const BenchRow* row = nullptr;
  double old_p50_s = 0;
  double new_p50_s = 0;
  double change = 0;  // new ÷ old median − 1: above 0 is slower
  double p = 1;
  bool regressed = false;  // slower by more than the tolerance, and p < kSignificance
};
inline constexpr double kSignificance = 0.01;

struct Comparison {
  std::vector<RowChange> changes;          // in the order of the new rows
  std::vector<const BenchRow*> unmatched;  // new rows that the old sweep lacks
  bool regressed() const;
};
// Keeps pointers into `rows`. `tolerance` is a share, as 0.1.
Comparison compare_rows(std::span<const BenchRow> old_rows, std::span<const BenchRow> rows,
                        double tolerance);

}  // namespace nqd::collectives

#include "collectives/bench/compare.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

namespace nqd::collectives {
namespace {

auto key_of(const BenchRow& row) {
  return std::tuple(row.collective, row.backend, row.algorithm, row.in_place, row.registered,
                    row.dtype, row.op, row.effective_bytes, row.ranks, row.copies > 1);
}

}  // namespace

double mann_whitney_p(std::span<const double> a, std::span<const double> b) {
  if (a.empty() || b.empty()) return 1;
  std::vector<std::pair<double, bool>> all;  // value, whether it is of `a`
  for (const double value : a) all.emplace_back(value, true);
  for (const double value : b) all.emplace_back(value, false);
  std::sort(all.begin(), all.end());
  const auto n_a = static_cast<double>(a.size());
  const auto n_b = static_cast<double>(b.size());
  const double n = n_a + n_b;
  double ranks_of_a = 0;
  double ties = 0;  // Σ(t³ − t) over groups of t equal values
  for (std::size_t first = 0; first < all.size();) {
    std::size_t last = first;
    while (last < all.size() && all[last].first == all[first].first) ++last;
    const auto group = static_cast<double>(last - first);
    // Ranks count from 1; equal values share the mean of theirs.
    const double rank = static_cast<double>(first + 1 + last) / 2;
    for (std::size_t i = first; i < last; ++i) ranks_of_a += all[i].second ? rank : 0;
    ties += group * group * group - group;
    first = last;
  }
  const double u = ranks_of_a - n_a * (n_a + 1) / 2;
  const double variance = n_a * n_b / 12 * (n + 1 - ties / (n * (n - 1)));
  if (!(variance > 0)) return 1;
  const double distance = std::max(0.0, std::abs(u - n_a * n_b / 2) - 0.5);
  return std::erfc(distance / std::sqrt(2 * variance));
}

bool Comparison::regressed() const {
  return std::any_of(changes.begin(), changes.end(),
                     [](const RowChange& change) { return change.regressed; });
}

Comparison compare_rows(std::span<const BenchRow> old_rows, std::span<const BenchRow> rows,
                        double tolerance) {
  Comparison comparison;
  for (const BenchRow& row : rows) {
    const auto old = std::find_if(old_rows.begin(), old_rows.end(), [&](const BenchRow& other) {
      return key_of(other) == key_of(row);
    });
    if (old == old_rows.end() || !(old->p50_s > 0)) {
      comparison.unmatched.push_back(&row);
      continue;
    }
    RowChange change{&row, old->p50_s, row.p50_s, row.p50_s / old->p50_s - 1};
    change.p = mann_whitney_p(old->samples_s, row.samples_s);
    change.regressed = change.change > tolerance && change.p < kSignificance;
    comparison.changes.push_back(change);
  }
  return comparison;
}

}  // namespace nqd::collectives

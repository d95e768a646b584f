#include "collectives/bench/compare.h"

#include <doctest/doctest.h>

#include <vector>

namespace nqd::collectives {
namespace {

TEST_CASE("the Mann-Whitney test agrees with published values") {
  // scipy.stats.mannwhitneyu(a, b, method="asymptotic") gives these.
  const std::vector<double> a = {19, 22, 16, 29, 24};
  const std::vector<double> b = {20, 11, 17, 12};
  CHECK(mann_whitney_p(a, b) == doctest::Approx(0.11134688653314041).epsilon(1e-9));
  CHECK(mann_whitney_p(b, a) == doctest::Approx(0.11134688653314041).epsilon(1e-9));
  const std::vector<double> tied = {1, 2, 2, 3, 3, 3};
  const std::vector<double> other = {2, 3, 4, 4, 5, 5};
  CHECK(mann_whitney_p(tied, other) == mann_whitney_p(other, tied));
  CHECK(mann_whitney_p(tied, tied) == 1);
  CHECK(mann_whitney_p({}, a) == 1);
  const std::vector<double> same(10, 1.0);
  CHECK(mann_whitney_p(same, same) == 1);
}

BenchRow row_of(double median_s, double spread_s, std::uint64_t bytes = 4096) {
  BenchRow row;
  row.collective = "all_reduce";
  row.algorithm = "ring";
  row.effective_bytes = bytes;
  for (int i = -10; i <= 10; ++i) row.samples_s.push_back(median_s + spread_s * i / 10);
  row.p50_s = median_s;
  return row;
}

TEST_CASE("a change counts when it is large and no chance") {
  const std::vector<BenchRow> old = {row_of(1e-3, 1e-4)};
  const auto regressed = [&](const BenchRow& row, double tolerance) {
    const std::vector<BenchRow> rows = {row};
    return compare_rows(old, rows, tolerance).regressed();
  };
  CHECK(regressed(row_of(1.3e-3, 1e-4), 0.1));
  CHECK_FALSE(regressed(row_of(1.3e-3, 1e-4), 0.4));
  CHECK_FALSE(regressed(row_of(1.05e-3, 1e-4), 0.1));
  CHECK_FALSE(regressed(row_of(1.3e-3, 3e-2), 0.1));  // drowned in its spread
  CHECK_FALSE(regressed(row_of(0.5e-3, 1e-4), 0.1));  // faster is no regression
}

TEST_CASE("rows are matched by what they measured") {
  const std::vector<BenchRow> old = {row_of(1e-3, 1e-4), row_of(2e-3, 1e-4, 8192)};
  std::vector<BenchRow> rows = {row_of(2e-3, 1e-4, 8192), row_of(1e-3, 1e-4, 16384)};
  rows.push_back(row_of(1e-3, 1e-4));
  rows.back().registered = true;
  const Comparison comparison = compare_rows(old, rows, 0.1);
  REQUIRE(comparison.changes.size() == 1);
  CHECK(comparison.changes[0].row == &rows[0]);
  CHECK(comparison.changes[0].change == 0);
  CHECK(comparison.unmatched == std::vector<const BenchRow*>{&rows[1], &rows[2]});
}

}  // namespace
}  // namespace nqd::collectives

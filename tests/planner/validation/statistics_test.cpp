// The figures of validate-model on data small enough to count by hand.
#include "planner/validation/statistics.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>

using namespace nqd::planner;

TEST_CASE("errors are shares of the measurement, their mean is of absolute values") {
  CHECK(relative_error(1.1, 1.0) == doctest::Approx(0.1));
  CHECK(relative_error(1.0, 2.0) == -0.5);
  const std::array errors = {0.1, -0.3, 0.05};
  const ErrorSummary summary = summarise(errors);
  CHECK(summary.mean_abs == doctest::Approx(0.15));
  CHECK(summary.max_abs == 0.3);
  CHECK(summarise({}).mean_abs == 0);
}

TEST_CASE("the null model's constant is the best for the mean absolute relative error") {
  const std::array basis = {1.0, 1.0, 1.0};
  const std::array measured = {2.0, 3.0, 10.0};
  // |c/2 − 1| + |c/3 − 1| + |c/10 − 1|: weights 1/2, 1/3, 1/10, of which the first is over half.
  CHECK(best_constant(basis, measured) == 2.0);
  const auto cost = [&](double c) {
    double sum = 0;
    for (const double value : measured) sum += std::abs(relative_error(c, value));
    return sum;
  };
  for (double c = 0.5; c < 12; c += 0.25) CHECK(cost(2.0) <= cost(c) + 1e-12);
  CHECK(best_constant({}, {}) == 0);
}

TEST_CASE("Kendall's tau counts pairs inside groups only") {
  // Group a: measured 1 < 2 < 3, predicted 1 < 3 < 2: two pairs agree, one does not. Group b: its
  // one pair agrees. Pairs across groups would disagree.
  const std::array rows = {Ranked{"a", 1, 1}, Ranked{"a", 3, 2}, Ranked{"a", 2, 3},
                           Ranked{"b", 0.1, 10}, Ranked{"b", 0.2, 20}};
  const Ranking ranking = rank(rows);
  CHECK(ranking.pairs == 4);
  REQUIRE(ranking.kendall_tau.has_value());
  CHECK(*ranking.kendall_tau == 0.5);  // (3 − 1) / 4
  CHECK(ranking.groups == 0);          // none has four rows
}

TEST_CASE("pairs that were measured equal are left out, pairs predicted equal count as neither") {
  const std::array rows = {Ranked{"a", 1, 5}, Ranked{"a", 2, 5}, Ranked{"a", 2, 7}};
  const Ranking ranking = rank(rows);
  CHECK(ranking.pairs == 2);
  CHECK(*ranking.kendall_tau == 0.5);
  const std::array alone = {Ranked{"a", 1, 5}};
  CHECK_FALSE(rank(alone).kendall_tau.has_value());
}

TEST_CASE("top 3 and regret are of groups of at least four rows") {
  const std::array rows = {
      // The measured best (2) is predicted fourth; the predicted best was measured 3: regret 0.5.
      Ranked{"far", 10, 3}, Ranked{"far", 11, 4}, Ranked{"far", 12, 5}, Ranked{"far", 13, 2},
      // Predicted as measured: regret 0.
      Ranked{"near", 1, 1}, Ranked{"near", 2, 2}, Ranked{"near", 3, 3}, Ranked{"near", 4, 4},
      Ranked{"small", 2, 1}, Ranked{"small", 1, 2}};
  const Ranking ranking = rank(rows);
  CHECK(ranking.groups == 2);
  CHECK(ranking.best_in_top3 == 0.5);
  CHECK(ranking.mean_regret == 0.25);
}

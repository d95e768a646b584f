#include "engine/scale/statistics.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

using namespace nqd::engine;
using doctest::Approx;

TEST_CASE("the incomplete beta function where it is a polynomial or has a symmetry") {
  for (const double x : {0.0, 0.01, 0.3, 0.5, 0.77, 0.999, 1.0}) {
    CAPTURE(x);
    CHECK(incomplete_beta(x, 1, 1) == Approx(x).epsilon(1e-13));
    CHECK(incomplete_beta(x, 3, 1) == Approx(x * x * x).epsilon(1e-13));
    CHECK(incomplete_beta(x, 2, 2) == Approx(x * x * (3 - 2 * x)).epsilon(1e-13));
    CHECK(incomplete_beta(x, 0.5, 7.5) + incomplete_beta(1 - x, 7.5, 0.5) ==
          Approx(1).epsilon(1e-13));
  }
  // I_x(1/2, 1/2) = (2/π)·asin √x.
  CHECK(incomplete_beta(0.2, 0.5, 0.5) ==
        Approx(2 / M_PI * std::asin(std::sqrt(0.2))).epsilon(1e-13));
}

TEST_CASE("Student's t has its closed forms and its tabulated quantiles") {
  // One degree of freedom: Cauchy's distribution; two: 1/2 − t ÷ (2√(2 + t²)).
  for (const double t : {-3.0, -0.5, 0.0, 0.1, 1.0, 12.7}) {
    CAPTURE(t);
    CHECK(student_upper_tail(t, 1) == Approx(0.5 - std::atan(t) / M_PI).epsilon(1e-12));
    CHECK(student_upper_tail(t, 2) == Approx(0.5 - t / (2 * std::sqrt(2 + t * t))).epsilon(1e-12));
  }
  // Any table of the distribution, two-sided 95 % and 99 %.
  CHECK(student_bound(0.95, 1) == Approx(12.7062).epsilon(1e-5));
  CHECK(student_bound(0.95, 2) == Approx(4.30265).epsilon(1e-5));
  CHECK(student_bound(0.95, 4) == Approx(2.77645).epsilon(1e-5));
  CHECK(student_bound(0.95, 30) == Approx(2.04227).epsilon(1e-5));
  CHECK(student_bound(0.99, 9) == Approx(3.24984).epsilon(1e-5));
  CHECK(student_bound(0.95, 1e6) == Approx(1.959966).epsilon(1e-6));
}

TEST_CASE("mean, median and the interval of the mean") {
  const std::vector<double> values = {5, 1, 3, 7};
  CHECK(mean(values) == 4);
  CHECK(median(values) == 4);
  CHECK(median(std::vector<double>{9, 2, 4}) == 4);
  const MeanInterval interval = mean_interval(values);
  // s² = 20/3, three degrees of freedom: 3.18245.
  const double reach = 3.18245 * std::sqrt(20.0 / 3 / 4);
  CHECK(*interval.low == Approx(4 - reach).epsilon(1e-5));
  CHECK(*interval.high == Approx(4 + reach).epsilon(1e-5));
  CHECK_FALSE(mean_interval(std::vector<double>{4}).low.has_value());
}

TEST_CASE("Welch's test") {
  // Equal sizes and spreads: Student's test with n₁ + n₂ − 2 = 4 degrees of freedom; s² = 1, so
  // t = 2 ÷ √(2/3).
  const std::vector<double> a = {1, 2, 3}, b = {3, 4, 5};
  CHECK(*welch_p(a, b) == Approx(2 * student_upper_tail(2 / std::sqrt(2.0 / 3), 4)).epsilon(1e-12));
  CHECK(*welch_p(a, a) == Approx(1));
  CHECK(*welch_p(a, b) == *welch_p(b, a));
  CHECK(*welch_p(std::vector<double>{2, 2}, std::vector<double>{2, 2}) == 1);
  CHECK(*welch_p(std::vector<double>{2, 2}, std::vector<double>{3, 3}) == 0);
  CHECK_FALSE(welch_p(std::vector<double>{2}, a).has_value());
}

TEST_CASE("a mean below a bound") {
  const std::vector<double> values = {-1, 0, 1};  // error 1/√3
  CHECK(*below_p(values, 0) == Approx(0.5));
  CHECK(*below_p(values, 1) == Approx(student_upper_tail(std::sqrt(3.0), 2)).epsilon(1e-12));
  CHECK(*below_p(values, 1) < *below_p(values, 0.5));
  CHECK(*below_p(std::vector<double>{2, 2}, 3) == 0);
  CHECK(*below_p(std::vector<double>{2, 2}, 2) == 1);
  CHECK_FALSE(below_p(std::vector<double>{2}, 3).has_value());
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK_FALSE(*below_p(std::vector<double>{nan, 2}, 3) < 0.05);
}

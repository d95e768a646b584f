// What a handful of repeated measurements say about their mean. Student's t distribution:
// Abramowitz and Stegun 26.7.1, by the incomplete beta function.
#pragma once

#include <optional>
#include <span>

namespace nqd::engine {

// I_x(a, b), 0 ≤ x ≤ 1, a and b > 0, to about 1e-14: its continued fraction (DLMF 8.17.22).
double incomplete_beta(double x, double a, double b);

// P(T ≥ t) with `freedom` > 0 degrees of freedom.
double student_upper_tail(double t, double freedom);
// The t with P(|T| ≤ t) = `confidence`, in (0, 1).
double student_bound(double confidence, double freedom);

double mean(std::span<const double> values);    // at least one
double median(std::span<const double> values);  // at least one; of two in the middle their mean

struct MeanInterval {
  double mean = 0;
  // Where the mean of all such measurements lies with 95 % confidence; none for a single value.
  std::optional<double> low, high;
};
MeanInterval mean_interval(std::span<const double> values);

// Welch's t-test, two-sided: how likely means at least so far apart are when both are the same.
// None with fewer than two values on a side; without any spread 1 for equal means, else 0.
std::optional<double> welch_p(std::span<const double> a, std::span<const double> b);

// One-sided t-test: how likely a mean so far below `bound` is when the mean is `bound` or more.
// None with fewer than two values.
std::optional<double> below_p(std::span<const double> values, double bound);

}  // namespace nqd::engine

#include "engine/scale/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace nqd::engine {
namespace {

constexpr double kConfidence = 0.95;

// The continued fraction of I_x(a, b), by Lentz's method; converges fast for x < (a+1)/(a+b+2).
double beta_fraction(double x, double a, double b) {
  constexpr double kTiny = 1e-300;  // stands for a zero that would be divided by
  constexpr int kMost = 500;
  const auto apart = [](double value) { return std::abs(value) < kTiny ? kTiny : value; };
  double c = 1;
  double d = 1 / apart(1 - (a + b) * x / (a + 1));
  double fraction = d;
  for (int m = 1; m <= kMost; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    double factor = 1;
    for (const double term : {even, odd}) {
      d = 1 / apart(1 + term * d);
      c = apart(1 + term / c);
      factor = c * d;
      fraction *= factor;
    }
    if (std::abs(factor - 1) < std::numeric_limits<double>::epsilon()) break;
  }
  return fraction;
}

// Of the mean of the values, squared: s² ÷ n.
double squared_error(std::span<const double> values) {
  const double middle = mean(values);
  double squares = 0;
  for (const double value : values) squares += (value - middle) * (value - middle);
  const auto n = static_cast<double>(values.size());
  return squares / (n - 1) / n;
}

}  // namespace

double incomplete_beta(double x, double a, double b) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double scale = std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) +
                                a * std::log(x) + b * std::log1p(-x));
  if (x < (a + 1) / (a + b + 2)) return scale * beta_fraction(x, a, b) / a;
  return 1 - scale * beta_fraction(1 - x, b, a) / b;
}

double student_upper_tail(double t, double freedom) {
  const double both = incomplete_beta(freedom / (freedom + t * t), freedom / 2, 0.5);
  return t >= 0 ? both / 2 : 1 - both / 2;
}

double student_bound(double confidence, double freedom) {
  const double tail = (1 - confidence) / 2;
  double low = 0;
  double high = 1;
  while (student_upper_tail(high, freedom) > tail) high *= 2;
  while (true) {
    const double middle = low + (high - low) / 2;
    if (middle <= low || middle >= high) return middle;
    (student_upper_tail(middle, freedom) > tail ? low : high) = middle;
  }
}

double mean(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double median(std::span<const double> values) {
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  const std::size_t half = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

MeanInterval mean_interval(std::span<const double> values) {
  MeanInterval interval{mean(values), {}, {}};
  if (values.size() < 2) return interval;
  const double reach = student_bound(kConfidence, static_cast<double>(values.size() - 1)) *
                       std::sqrt(squared_error(values));
  interval.low = interval.mean - reach;
  interval.high = interval.mean + reach;
  return interval;
}

std::optional<double> welch_p(std::span<const double> a, std::span<const double> b) {
  if (a.size() < 2 || b.size() < 2) return std::nullopt;
  const double of_a = squared_error(a);
  const double of_b = squared_error(b);
  const double error = of_a + of_b;
  const double difference = mean(a) - mean(b);
  if (error == 0) return difference == 0 ? 1 : 0;
  const double freedom = error * error /
                         (of_a * of_a / static_cast<double>(a.size() - 1) +
                          of_b * of_b / static_cast<double>(b.size() - 1));
  return 2 * student_upper_tail(std::abs(difference) / std::sqrt(error), freedom);
}

std::optional<double> below_p(std::span<const double> values, double bound) {
  if (values.size() < 2) return std::nullopt;
  const double error = std::sqrt(squared_error(values));
  const double above = bound - mean(values);
  if (error == 0) return above > 0 ? 0 : 1;
  return student_upper_tail(above / error, static_cast<double>(values.size() - 1));
}

}  // namespace nqd::engine

#include "engine/numerics/robust.h"

#include <algorithm>
#include <cmath>

namespace nqd::engine {

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

double robust_spread(std::span<const double> values) {
  constexpr double kOfNormal = 1.4826;
  const double center = median({values.begin(), values.end()});
  std::vector<double> deviations;
  for (const double value : values) deviations.push_back(std::abs(value - center));
  return kOfNormal * median(std::move(deviations));
}

}  // namespace nqd::engine

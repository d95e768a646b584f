// Location and spread that a minority of wild values does not move.
#pragma once

#include <span>
#include <vector>

namespace nqd::engine {

// Of at least one value; of an even number the mean of the two in the middle.
double median(std::vector<double> values);

// 1.4826 times the median absolute deviation from the median: the standard deviation of normally
// distributed values (Rousseeuw & Croux, "Alternatives to the median absolute deviation", JASA 88,
// 1993, section 1). Of at least one value.
double robust_spread(std::span<const double> values);

}  // namespace nqd::engine

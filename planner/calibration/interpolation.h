// Times between measured sizes, where no line describes them.
#pragma once

#include <vector>

#include "planner/spec.h"

namespace nqd::planner {

// The samples in ascending order of distinct sizes, repeated ones as the median of their times (the
// lower of two); without those that lack positive bytes or positive, finite seconds.
std::vector<SamplePoint> median_points(std::vector<SamplePoint> samples);

// Seconds at `bytes`. Between two points: the monotone cubic of log seconds over log bytes (Fritsch
// and Carlson, "Monotone Piecewise Cubic Interpolation", 1980; slopes are weighted harmonic means
// as in Fritsch and Butland, 1984), which keeps both a power law and a proportional time exact, and
// never overshoots. Points on the other side of `break_bytes` (payloads above it move in another
// way; 0 = none) take no part. Beyond the outermost point of a side: along the chord of its two
// nearest points, but between a constant time and one proportional to the payload, which every
// α, β ≥ 0 obeys; a lone point gives the geometric mean of these two. `points` are as median_points
// returns them, at least one.
double interpolate(const std::vector<SamplePoint>& points, double break_bytes, double bytes);

}  // namespace nqd::planner

// How well a calibration predicts what it did not see.
#pragma once

#include <functional>
#include <vector>

#include "planner/spec.h"

namespace nqd::planner {

struct Prediction {
  double bytes = 0;
  double measured_s = 0;
  double predicted_s = 0;
  double miss() const;  // |predicted ÷ measured − 1|
};

struct HoldOut {
  std::vector<Prediction> predictions;  // ascending
  double median_fraction = 0;           // of the misses, nearest rank
  double worst_fraction = 0;
  double worst_bytes = 0;  // where
};

// Seconds at a size, from the points that are left.
using Predictor = std::function<double(double bytes)>;
using Fitter = std::function<Predictor(const std::vector<SamplePoint>& points)>;

// Every measured size but the smallest and the largest, predicted by a fit to every other size: one
// fit without the 2nd, 4th, … size and one without the 1st, 3rd, …; a size outside the range that
// is left is not predicted. `points` are as median_points returns them; with fewer than 5 there are
// no predictions.
HoldOut hold_out(const std::vector<SamplePoint>& points, const Fitter& fit);

// The same of fit_curve, which chooses between pieces and points by the sizes that are left alone.
HoldOut hold_out_curve(const std::vector<SamplePoint>& points, double break_bytes);

}  // namespace nqd::planner

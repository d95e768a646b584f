#include "planner/calibration/hold_out.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "planner/calibration/calibration.h"

namespace nqd::planner {
namespace {

constexpr std::size_t kFewestSizes = 5;

void predict_other(const std::vector<SamplePoint>& points, std::size_t first_held,
                   const Fitter& fit, std::vector<Prediction>& predictions) {
  std::vector<SamplePoint> kept;
  std::vector<SamplePoint> held;
  for (std::size_t i = 0; i < points.size(); ++i) {
    (i % 2 == first_held ? held : kept).push_back(points[i]);
  }
  const Predictor predict = fit(kept);
  for (const SamplePoint& point : held) {
    if (point.bytes < kept.front().bytes || point.bytes > kept.back().bytes) continue;
    predictions.push_back({point.bytes, point.seconds, predict(point.bytes)});
  }
}

}  // namespace

double Prediction::miss() const { return std::abs(predicted_s / measured_s - 1); }

HoldOut hold_out(const std::vector<SamplePoint>& points, const Fitter& fit) {
  HoldOut result;
  if (points.size() < kFewestSizes) return result;
  predict_other(points, 0, fit, result.predictions);
  predict_other(points, 1, fit, result.predictions);
  std::sort(result.predictions.begin(), result.predictions.end(),
            [](const Prediction& a, const Prediction& b) { return a.bytes < b.bytes; });
  std::vector<double> misses;
  for (const Prediction& prediction : result.predictions) {
    misses.push_back(prediction.miss());
    if (prediction.miss() < result.worst_fraction) continue;
    result.worst_fraction = prediction.miss();
    result.worst_bytes = prediction.bytes;
  }
  std::sort(misses.begin(), misses.end());
  result.median_fraction = misses[(misses.size() - 1) / 2];
  return result;
}

HoldOut hold_out_curve(const std::vector<SamplePoint>& points, double break_bytes) {
  return hold_out(points, [&](const std::vector<SamplePoint>& kept) -> Predictor {
    return [curve = fit_curve(kept, break_bytes)](double bytes) {
      return curve_time_s(curve, bytes, nullptr);
    };
  });
}

}  // namespace nqd::planner

// Measured samples to planner constants: a curve of times by payload, and compute rates.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/spec.h"

namespace nqd::planner {

// A worst residual above this says that α–β pieces do not describe the samples.
inline constexpr double kResidualWarning = 0.15;

// Least squares on relative error of seconds = α + β·bytes, in as many pieces (at most
// `max_pieces`, never more than 3) as are worthwhile: each piece more must bring the worst relative
// residual to 70 % or the sum of squares to 40 %, and a fit within 2 % is left alone. A break lies
// on a measured size and both pieces meet there; every piece holds a measured size between its
// ends. α and β are never negative. max_residual_fraction is the worst |fitted/measured − 1| over
// all points. Points without positive bytes and seconds are left out. Throws Error (kUsage,
// NQD2201) for fewer than two distinct sizes.
CalibratedCurve fit_pieces(std::vector<SamplePoint> points, int max_pieces = 3);

// The pieces, and where these miss by more than kResidualWarning the measured sizes (medians of
// repeated ones), if sizes that are held out are then predicted better: a cache that is left or a
// protocol that changes makes jumps that no α–β line follows. `break_bytes`: the algorithm is known
// to move larger payloads in another way (0 = none), so that nothing is interpolated across.
CalibratedCurve fit_curve(const std::vector<SamplePoint>& points, double break_bytes = 0);

// Seconds of one call; `extrapolated` is set when bytes lies outside the measured range (the
// nearest piece or pair of points is used: callers must say so).
double curve_time_s(const CalibratedCurve& curve, double bytes, bool* extrapolated);

struct Calibration {
  std::vector<CalibratedCurve> curves;
  std::vector<Crossovers> crossovers;
  std::vector<EngineRates> engine_rates;
  double gemm_flops = 0;                    // FLOP/s of one rank; 0 = not measured
  double memory_bandwidth_bytes_per_s = 0;  // 0 = not measured
  std::string source;                       // "runs/q/bench.json, 2026-11-29T14:00:00Z, host h"
};

// The cluster file text (YAML) that `--cluster FILE` and `cluster: {calibration: FILE}` read.
std::string calibration_yaml(const Calibration& calibration);
// Reads it back. Throws Error (kUsage, NQD1011) with the place.
Calibration read_calibration(const std::string& path);

}  // namespace nqd::planner

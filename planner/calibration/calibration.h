// Measured samples to planner constants: a piecewise α–β curve and compute rates.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/spec.h"

namespace nqd::planner {

struct SamplePoint {
  double bytes = 0;
  double seconds = 0;  // p50
};

// Least squares on relative error of seconds = α + β·bytes, in as many pieces (at most
// `max_pieces`, never more than 3) as are worthwhile: each piece more must bring the worst relative
// residual to 70 % or the sum of squares to 40 %, and a fit within 2 % is left alone. A break lies
// on a measured size and both pieces meet there; every piece holds a measured size between its
// ends. α and β are never negative. max_residual_fraction is the worst |fitted/measured − 1| over
// all points. Points without positive bytes and seconds are left out. Throws Error (kUsage,
// NQD2201) for fewer than two distinct sizes.
CalibratedCurve fit_curve(std::vector<SamplePoint> points, int max_pieces = 3);

// Seconds of one call; `extrapolated` is set when bytes lies outside the measured range (the
// nearest piece is used: callers must say so).
double curve_time_s(const CalibratedCurve& curve, double bytes, bool* extrapolated);

struct Calibration {
  std::vector<CalibratedCurve> curves;
  double gemm_flops = 0;                    // FLOP/s of one rank; 0 = not measured
  double memory_bandwidth_bytes_per_s = 0;  // 0 = not measured
  std::string source;                       // "runs/q/bench.json, 2026-11-29T14:00:00Z, host h"
};

// The cluster file text (YAML) that `--cluster FILE` and `cluster: {calibration: FILE}` read.
std::string calibration_yaml(const Calibration& calibration);
// Reads it back. Throws Error (kUsage, NQD1011) with the place.
Calibration read_calibration(const std::string& path);

}  // namespace nqd::planner

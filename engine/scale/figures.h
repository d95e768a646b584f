// What a scaling campaign says: throughput, efficiency, and whether more ranks train as well.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/scale/records.h"
#include "engine/scale/statistics.h"

namespace nqd::engine {

inline constexpr double kScaleLevel = 0.05;  // of every test

// A point's held-out losses against those of its regime's base, seed by seed. Runs of one seed
// begin with the same weights and read the same order of samples, so that tests are paired.
//   "bits"   canonical numerics, equal global batch: losses and weights have the same bits
//   "paired TOST"   equal global batch otherwise: two one-sided t-tests of the differences, that
//   their
//            mean is neither above +margin nor below −margin (Schuirmann 1987)
//   "paired non-inferiority"   equal local batch, where more ranks have seen more samples after as
//            many steps: one t-test, that the mean is not above +margin
struct ScaleQuality {
  std::string test;
  // "bit-identical" or "other-bits"; "equivalent" or "not-shown"; "not-worse" or "not-shown"
  std::string verdict;
  bool ok = false;
  double margin = 0;            // nats
  MeanInterval difference;      // loss − base's, over seeds
  std::optional<double> p;      // of the test, the larger of two; none for "bits", or one seed
  std::optional<double> welch;  // two-sided, unpaired: p of Welch's test that the means differ
};

struct ScaleFigures {
  std::vector<double> step_s;        // by seed: the median of the measured steps
  std::vector<double> tokens_per_s;  // by seed, of that
  MeanInterval throughput;           // over seeds
  // (tokens/s ÷ base's) ÷ (ranks ÷ base's), seed by seed, since runs of one seed were measured one
  // after another. None where it or the base is oversubscribed.
  std::vector<double> efficiencies;
  std::optional<MeanInterval> efficiency;
  std::optional<MeanInterval> heldout;  // loss over seeds; none where a run has none
  std::optional<ScaleQuality> quality;  // none for a base, or without held-out losses
};

// One for each point.
std::vector<ScaleFigures> scale_figures(const ScaleResult& result);

// Every quality holds, and every audit.
bool scale_ok(const ScaleResult& result, const std::vector<ScaleFigures>& figures);

// The base of the point's regime: the first point of it.
const ScalePoint& scale_base(const ScaleResult& result, const ScalePoint& point);

}  // namespace nqd::engine

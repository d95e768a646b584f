#include "engine/scale/figures.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace nqd::engine;
using doctest::Approx;

namespace {

constexpr auto kStrong = ScaleRegime::kEqualGlobalBatch;
constexpr auto kWeak = ScaleRegime::kEqualLocalBatch;

// Two steps of warm-up, three measured; `seconds` is their median.
ScaleRun run_of(std::int64_t seed, double seconds, double loss) {
  return {
      seed, {9, 8, seconds * 2, seconds, seconds / 2}, loss, "bits of " + std::to_string(loss), {}};
}

ScalePoint point_of(ScaleRegime regime, std::int64_t ranks, std::vector<ScaleRun> runs) {
  ScalePoint point;
  point.regime = regime;
  point.ranks = ranks;
  point.global_batch = regime == kStrong ? 8 : 8 * ranks;
  point.tokens = point.global_batch * 10;
  point.runs = std::move(runs);
  return point;
}

ScaleResult result_of(bool canonical, std::vector<ScalePoint> points) {
  ScaleResult result;
  result.canonical = canonical;
  result.cpus = 4;
  result.warmup = 2;
  result.steps = 3;
  result.margin = 0.01;
  result.points = std::move(points);
  return result;
}

// Three seeds on one rank and on four, whose losses differ by `differences`.
ScaleResult pair_of(ScaleRegime regime, bool canonical, const std::vector<double>& differences) {
  std::vector<ScaleRun> one, four;
  const std::vector<double> losses = {3.0, 3.2, 3.1};
  for (std::size_t i = 0; i < differences.size(); ++i) {
    const auto seed = static_cast<std::int64_t>(i);
    one.push_back(run_of(seed, 1.0, losses[i]));
    four.push_back(run_of(seed, 0.25, losses[i] + differences[i]));
  }
  return result_of(canonical, {point_of(regime, 1, one), point_of(regime, 4, four)});
}

ScaleQuality quality(const ScaleResult& result) {
  const std::vector<ScaleFigures> figures = scale_figures(result);
  CHECK(scale_ok(result, figures) == figures.back().quality->ok);
  CHECK_FALSE(figures.front().quality.has_value());
  return *figures.back().quality;
}

}  // namespace

TEST_CASE("rates and efficiencies follow from the medians of the measured steps") {
  const ScaleResult result =
      result_of(true, {point_of(kStrong, 1, {run_of(1, 1.0, 3), run_of(2, 2.0, 3)}),
                       point_of(kStrong, 2, {run_of(1, 0.5, 3), run_of(2, 1.25, 3)}),
                       point_of(kWeak, 1, {run_of(1, 1.0, 3), run_of(2, 2.0, 3)}),
                       point_of(kWeak, 2, {run_of(1, 1.0, 3), run_of(2, 2.5, 3)})});
  const std::vector<ScaleFigures> figures = scale_figures(result);
  CHECK(figures[1].step_s == std::vector<double>{0.5, 1.25});
  CHECK(figures[1].tokens_per_s == std::vector<double>{160, 64});
  CHECK(figures[1].throughput.mean == 112);
  CHECK(figures[0].efficiencies == std::vector<double>{1, 1});
  CHECK(figures[1].efficiencies == std::vector<double>{1.0, 0.8});
  CHECK(figures[1].efficiency->mean == Approx(0.9));
  // Two seeds: 0.9 ± 12.7062 · 0.1.
  CHECK(*figures[1].efficiency->low == Approx(0.9 - 1.27062).epsilon(1e-4));
  // Twice the batch in the same time.
  CHECK(figures[3].tokens_per_s == std::vector<double>{160, 64});
  CHECK(figures[3].efficiencies == std::vector<double>{1.0, 0.8});
}

TEST_CASE("more ranks than CPUs have a rate and no efficiency") {
  ScaleResult result = result_of(
      true, {point_of(kStrong, 1, {run_of(1, 1.0, 3)}), point_of(kStrong, 8, {run_of(1, 0.5, 3)})});
  result.points[1].oversubscribed = true;
  std::vector<ScaleFigures> figures = scale_figures(result);
  CHECK(figures[0].efficiency.has_value());
  CHECK(figures[1].throughput.mean == 160);
  CHECK_FALSE(figures[1].efficiency.has_value());
  CHECK(figures[1].efficiencies.empty());
  result.points[0].oversubscribed = true;
  CHECK_FALSE(scale_figures(result)[0].efficiency.has_value());
}

TEST_CASE("canonical numerics and an equal global batch: the same bits or no") {
  const ScaleQuality same = quality(pair_of(kStrong, true, {0, 0, 0}));
  CHECK(same.test == "bits");
  CHECK(same.verdict == "bit-identical");
  CHECK(same.ok);
  const ScaleQuality other = quality(pair_of(kStrong, true, {0, 1e-15, 0}));
  CHECK(other.verdict == "other-bits");
  CHECK_FALSE(other.ok);
  ScaleResult weights = pair_of(kStrong, true, {0, 0, 0});
  weights.points[1].runs[2].weights_sha256 = "others";
  CHECK_FALSE(quality(weights).ok);
}

TEST_CASE("fast numerics: both sides within the margin, or no") {
  const ScaleQuality near = quality(pair_of(kStrong, false, {1e-6, -2e-6, 1e-6}));
  CHECK(near.test == "paired TOST");
  CHECK(near.verdict == "equivalent");
  CHECK(near.margin == Approx(0.031));
  CHECK(*near.p < 1e-6);
  // Seeds are further apart than the means: Welch's test sees nothing.
  CHECK(*near.welch > 0.99);
  for (const double shift : {0.5, -0.5}) {
    const ScaleQuality far = quality(pair_of(kStrong, false, {shift, shift + 0.01, shift}));
    CHECK(far.verdict == "not-shown");
    CHECK(*far.p > 0.99);
    CHECK(*far.welch < 0.05);
  }
  // As far apart as the margin, or too uneven to tell.
  CHECK_FALSE(quality(pair_of(kStrong, false, {0.031, 0.0315, 0.0305})).ok);
  CHECK_FALSE(quality(pair_of(kStrong, false, {0.1, -0.1, 0.0})).ok);
}

TEST_CASE("an equal local batch may be better, not worse") {
  const ScaleQuality better = quality(pair_of(kWeak, true, {-0.5, -0.4, -0.6}));
  CHECK(better.test == "paired non-inferiority");
  CHECK(better.verdict == "not-worse");
  const ScaleQuality worse = quality(pair_of(kWeak, true, {0.5, 0.4, 0.6}));
  CHECK(worse.verdict == "not-shown");
  CHECK_FALSE(worse.ok);
}

TEST_CASE("one seed shows bits alone; without held-out losses nothing is shown or refused") {
  CHECK(quality(pair_of(kStrong, true, {0})).ok);
  const ScaleQuality one = quality(pair_of(kStrong, false, {0}));
  CHECK_FALSE(one.ok);
  CHECK_FALSE(one.p.has_value());
  ScaleResult silent = pair_of(kStrong, false, {0, 0});
  silent.points[1].runs[0].heldout_loss.reset();
  const std::vector<ScaleFigures> figures = scale_figures(silent);
  CHECK_FALSE(figures[1].quality.has_value());
  CHECK(scale_ok(silent, figures));
}

TEST_CASE("an audit that is not exact fails the campaign") {
  ScaleResult result = pair_of(kStrong, true, {0, 0, 0});
  result.points[0].runs[1].audit_failures = {"weights"};
  CHECK_FALSE(scale_ok(result, scale_figures(result)));
}

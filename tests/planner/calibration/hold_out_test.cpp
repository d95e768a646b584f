#include "planner/calibration/hold_out.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "planner/calibration/calibration.h"
#include "planner/calibration/interpolation.h"

namespace nqd::planner {
namespace {

std::vector<SamplePoint> line(int sizes, double alpha, double beta) {
  std::vector<SamplePoint> points;
  for (int i = 0; i < sizes; ++i) {
    const double bytes = 4096.0 * (1 << i);
    points.push_back({bytes, alpha + beta * bytes});
  }
  return points;
}

struct Recorded {
  std::vector<SamplePoint> points;
  double break_bytes = 0;
};

// Medians of real sweeps by "collective algorithm": tests/fixtures/sweeps.csv says of which.
std::map<std::string, Recorded> recorded_sweeps() {
  std::ifstream file(NQD_SOURCE_DIR "/tests/fixtures/sweeps.csv");
  std::map<std::string, Recorded> sweeps;
  for (std::string text; std::getline(file, text);) {
    if (text.empty() || text.front() == '#') continue;
    std::istringstream fields(text);
    std::string collective;
    std::string algorithm;
    SamplePoint point;
    fields >> collective >> algorithm >> point.bytes >> point.seconds;
    REQUIRE_FALSE(fields.fail());
    Recorded& sweep = sweeps[collective + " " + algorithm];
    sweep.points.push_back(point);
    // As reports::sample_rows knows them: slots, and Open MPI's eager limit for both halves.
    sweep.break_bytes = algorithm == "direct" ? 8192 : algorithm == "ring" ? 8080 : 0;
  }
  return sweeps;
}

}  // namespace

TEST_CASE("every size but the outermost is predicted without itself and every other one") {
  const std::vector<SamplePoint> points = line(6, 1e-5, 1e-9);
  std::vector<std::vector<double>> seen;
  const HoldOut result = hold_out(points, [&](const std::vector<SamplePoint>& kept) -> Predictor {
    seen.emplace_back();
    for (const SamplePoint& point : kept) seen.back().push_back(point.bytes);
    return [](double bytes) {
      return bytes == 8192 ? 2 * (1e-5 + 1e-9 * bytes) : 1e-5 + 1e-9 * bytes;
    };
  });
  CHECK(seen == std::vector<std::vector<double>>{{8192, 32768, 131072}, {4096, 16384, 65536}});
  REQUIRE(result.predictions.size() == 4);
  CHECK(result.predictions.front().bytes == 8192);
  CHECK(result.predictions.back().bytes == 65536);
  CHECK(result.worst_fraction == doctest::Approx(1));
  CHECK(result.worst_bytes == 8192);
  CHECK(result.median_fraction < 1e-12);
  CHECK(hold_out(line(4, 1, 1), {}).predictions.empty());
}

TEST_CASE("held-out sizes of an exact line are predicted exactly, by pieces") {
  const std::vector<SamplePoint> points = line(12, 5e-6, 1e-10);
  CHECK(fit_curve(points).points.empty());
  CHECK(hold_out_curve(points, 0).worst_fraction < 1e-6);
}

TEST_CASE("a jump that no piece follows is priced by points, exactly at the measured sizes") {
  // The rate triples above 1 MiB at once; α + β·S pieces that meet cannot.
  std::vector<SamplePoint> points = line(16, 5e-6, 1e-10);
  for (SamplePoint& point : points) {
    if (point.bytes > (1 << 20)) point.seconds *= 3;
  }
  const CalibratedCurve curve = fit_curve(points);
  CHECK(curve.max_residual_fraction > kResidualWarning);
  REQUIRE(curve.points.size() == points.size());
  CHECK(curve.held_out_fraction > 0);
  for (const SamplePoint& point : points) {
    CHECK(curve_time_s(curve, point.bytes, nullptr) == doctest::Approx(point.seconds));
  }
  // Away from the jump, sizes between are within a tenth of the truth.
  for (double bytes : {24576.0, 393216.0, 6291456.0, 50331648.0}) {
    const double truth = (5e-6 + 1e-10 * bytes) * (bytes > (1 << 20) ? 3 : 1);
    CHECK(curve_time_s(curve, bytes, nullptr) == doctest::Approx(truth).epsilon(0.1));
  }
}

TEST_CASE("a known break is no miss: both sides are predicted from their own points") {
  std::vector<SamplePoint> points;
  for (double bytes = 512; bytes <= (64 << 20); bytes *= 2) {
    const bool small = bytes <= 8192;
    points.push_back({bytes, small ? 1e-6 + 1e-10 * bytes : 2e-5 + 8e-11 * bytes});
  }
  const CalibratedCurve blind = fit_curve(points);
  const CalibratedCurve told = fit_curve(points, 8192);
  REQUIRE_FALSE(blind.points.empty());
  REQUIRE_FALSE(told.points.empty());
  CHECK(told.held_out_fraction < 0.1);
  CHECK(blind.held_out_fraction > 0.5);
  CHECK(curve_time_s(told, 8192, nullptr) == doctest::Approx(1e-6 + 1e-10 * 8192));
  CHECK(curve_time_s(told, 8193, nullptr) == doctest::Approx(2e-5 + 8e-11 * 8193).epsilon(0.01));
}

TEST_CASE("real sweeps from 4 KiB to 256 MiB: held-out sizes") {
  const std::map<std::string, Recorded> sweeps = recorded_sweeps();
  REQUIRE(sweeps.size() == 5);
  for (const auto& [name, sweep] : sweeps) {
    CAPTURE(name);
    REQUIRE(sweep.points.size() == 33);
    std::vector<SamplePoint> points = sweep.points;
    // One size takes 2.5 times as long as the next larger one: nothing predicts it from the others.
    const auto odd = std::find_if(points.begin(), points.end(), [](const SamplePoint& point) {
      return point.bytes == 262040 && point.seconds > 40e-6 && point.seconds < 60e-6;
    });
    const bool odd_one = odd != points.end();
    CHECK(odd_one == (name == "reduce_scatter direct"));
    if (odd_one) points.erase(odd);
    const HoldOut result = hold_out_curve(points, sweep.break_bytes);
    CHECK(result.predictions.size() == points.size() - 2);
    CHECK(result.median_fraction <= 0.1);
    // Its neighbours are then predicted across a wider gap.
    CHECK(result.worst_fraction <= (odd_one ? 0.25 : 0.2));
  }
}

TEST_CASE("real sweeps: a random quarter of the sizes held out") {
  std::mt19937 random(11);
  for (const auto& [name, sweep] : recorded_sweeps()) {
    CAPTURE(name);
    std::vector<double> misses;
    for (int trial = 0; trial < 25; ++trial) {
      std::vector<SamplePoint> kept;
      std::vector<SamplePoint> held;
      for (std::size_t i = 0; i < sweep.points.size(); ++i) {
        const bool outermost = i == 0 || i + 1 == sweep.points.size();
        (!outermost && random() % 4 == 0 ? held : kept).push_back(sweep.points[i]);
      }
      const CalibratedCurve curve = fit_curve(kept, sweep.break_bytes);
      for (const SamplePoint& point : held) {
        misses.push_back(std::abs(curve_time_s(curve, point.bytes, nullptr) / point.seconds - 1));
      }
    }
    std::sort(misses.begin(), misses.end());
    REQUIRE(misses.size() > 50);
    CHECK(misses[misses.size() / 2] <= 0.1);
  }
}

}  // namespace nqd::planner

#include "planner/calibration/interpolation.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "planner/calibration/calibration.h"
#include "planner/mesh/fabric.h"

namespace nqd::planner {
namespace {

TEST_CASE("medians of repeated sizes, in order, without what is no sample") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<SamplePoint> points = median_points(
      {{8, 5}, {4, 1}, {8, 1}, {8, 3}, {0, 1}, {16, 0}, {16, nan}, {4, 2}, {32, INFINITY}});
  REQUIRE(points.size() == 2);
  CHECK(points[0].bytes == 4);
  CHECK(points[0].seconds == 1);  // the lower of two
  CHECK(points[1].bytes == 8);
  CHECK(points[1].seconds == 3);
}

TEST_CASE("measured sizes are exact, and a power law is exact between them") {
  std::vector<SamplePoint> points;
  for (double bytes = 1024; bytes <= 1 << 24; bytes *= 4) {
    points.push_back({bytes, 1e-9 * std::pow(bytes, 1.3)});
  }
  for (double bytes = 1024; bytes <= 1 << 24; bytes *= 1.7) {
    CHECK(interpolate(points, 0, bytes) == doctest::Approx(1e-9 * std::pow(bytes, 1.3)));
  }
  points[3].seconds *= 2.5;
  for (const SamplePoint& point : points) {
    CHECK(interpolate(points, 0, point.bytes) == doctest::Approx(point.seconds).epsilon(1e-12));
  }
}

TEST_CASE("a jump is followed without overshoot: growing samples give growing times") {
  // A cache is left between 4 and 8 MiB.
  const std::vector<SamplePoint> points = {{1 << 20, 80e-6},
                                           {2 << 20, 145e-6},
                                           {4 << 20, 380e-6},
                                           {8 << 20, 1486e-6},
                                           {16 << 20, 3189e-6}};
  double before = 0;
  for (double bytes = 1 << 20; bytes <= 16 << 20; bytes *= 1.01) {
    const double seconds = interpolate(points, 0, bytes);
    CHECK(seconds > before);
    before = seconds;
  }
  // Falling samples (noise) stay between their neighbours too.
  const std::vector<SamplePoint> noisy = {{8, 5e-6}, {16, 7e-6}, {32, 4e-6}, {64, 6e-6}};
  for (double bytes = 16; bytes <= 32; bytes *= 1.01) {
    CHECK(interpolate(noisy, 0, bytes) <= 7e-6 * (1 + 1e-12));
    CHECK(interpolate(noisy, 0, bytes) >= 4e-6 * (1 - 1e-12));
  }
}

TEST_CASE("a break keeps both sides apart") {
  // α = 1 and β = 1 up to 8, then α = 100 and β = 2.
  const std::vector<SamplePoint> points = {{1, 2}, {4, 5}, {16, 132}, {32, 164}};
  CHECK(interpolate(points, 8, 8) == doctest::Approx(9));
  CHECK(interpolate(points, 8, 9) == doctest::Approx(118));
  CHECK(interpolate(points, 8, 16) == doctest::Approx(132));
  CHECK(interpolate(points, 0, 8) > 9);  // without the break: between 5 and 132
  // A lone point says no more than that times neither fall nor outgrow the payload.
  CHECK(interpolate({{4, 5}, {16, 132}, {32, 164}}, 8, 8) == doctest::Approx(5 * std::sqrt(2)));
  // All points on one side: the other takes what there is.
  CHECK(interpolate({{16, 132}, {32, 164}}, 8, 8) == doctest::Approx(116));
}

TEST_CASE("beyond the points: along the chord, neither falling nor outgrowing the payload") {
  const std::vector<SamplePoint> line = {{10, 15}, {20, 20}, {40, 30}};
  CHECK(interpolate(line, 0, 80) == doctest::Approx(50));
  CHECK(interpolate(line, 0, 0) == doctest::Approx(10));
  const std::vector<SamplePoint> jump = {{10, 1}, {20, 10}, {40, 90}};
  CHECK(interpolate(jump, 0, 80) == doctest::Approx(180));
  CHECK(interpolate(jump, 0, 5) == doctest::Approx(0.5));
  const std::vector<SamplePoint> falling = {{10, 9}, {20, 8}};
  CHECK(interpolate(falling, 0, 80) == doctest::Approx(8));
  CHECK(interpolate(falling, 0, 5) == doctest::Approx(9));
}

TEST_CASE("a curve by points is the price, and says when it is extrapolated") {
  CalibratedCurve curve;
  curve.pieces = {{4, 4096, 1, 1}};
  curve.points = {{1024, 3}, {4096, 12}};
  bool extrapolated = true;
  CHECK(curve_time_s(curve, 2048, &extrapolated) == doctest::Approx(6));
  CHECK_FALSE(extrapolated);
  curve_time_s(curve, 512, &extrapolated);  // inside the pieces, outside the points
  CHECK(extrapolated);
  curve_time_s(curve, 8192, &extrapolated);
  CHECK(extrapolated);
  curve.points.clear();
  CHECK(curve_time_s(curve, 512, &extrapolated) == 513);
  CHECK_FALSE(extrapolated);
}

TEST_CASE("the planner prices a call by the points, and knows when they end") {
  ClusterSpec cluster;
  cluster.gpus_per_node = 2;
  CalibratedCurve curve;
  curve.collective = "all_reduce";
  curve.algorithm = "ring";
  curve.ranks = 2;
  curve.pieces = {{1024, 4096, 1, 1}};
  curve.points = {{1024, 3}, {4096, 12}};
  cluster.curves = {curve};
  const Group pair{"dp", 2, 1};
  const CallTime inside = call_time(cluster, pair, collectives::Collective::kAllReduce,
                                    collectives::Algorithm::kRing, 2048);
  CHECK(inside.seconds == doctest::Approx(6));
  CHECK_FALSE(inside.extrapolated);
  CHECK(call_time(cluster, pair, collectives::Collective::kAllReduce, collectives::Algorithm::kRing,
                  8192)
            .extrapolated);
}

}  // namespace
}  // namespace nqd::planner

#include "planner/calibration/calibration.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include "base/error.h"

namespace nqd::planner {
namespace {

std::vector<double> sweep(double from, double to, double factor) {
  std::vector<double> sizes;
  for (double bytes = from; bytes <= to; bytes *= factor) sizes.push_back(bytes);
  return sizes;
}

std::vector<SamplePoint> sample(const std::vector<double>& sizes, double alpha, double beta) {
  std::vector<SamplePoint> points;
  for (double bytes : sizes) points.push_back({bytes, alpha + beta * bytes});
  return points;
}

// Continuous: α1 + β1·x up to the break, slope β2 after it.
double bent(double bytes, double alpha, double beta1, double at, double beta2) {
  const double low = std::min(bytes, at);
  return alpha + beta1 * low + beta2 * (bytes - low);
}

void check_well_formed(const CalibratedCurve& curve) {
  REQUIRE_FALSE(curve.pieces.empty());
  for (std::size_t i = 0; i < curve.pieces.size(); ++i) {
    const LinkPiece& piece = curve.pieces[i];
    CHECK(piece.alpha_s >= 0);
    CHECK(piece.beta_s_per_byte >= 0);
    CHECK(piece.from_bytes < piece.to_bytes);
    if (i == 0) continue;
    const LinkPiece& before = curve.pieces[i - 1];
    CHECK(before.to_bytes == piece.from_bytes);
    const double left = before.alpha_s + before.beta_s_per_byte * before.to_bytes;
    const double right = piece.alpha_s + piece.beta_s_per_byte * piece.from_bytes;
    CHECK(left == doctest::Approx(right).epsilon(1e-6));
  }
}

TEST_CASE("one exact line is recovered in one piece") {
  const CalibratedCurve curve = fit_pieces(sample(sweep(4, 64 << 20, 4), 5e-6, 1e-10));
  check_well_formed(curve);
  REQUIRE(curve.pieces.size() == 1);
  CHECK(curve.pieces[0].alpha_s == doctest::Approx(5e-6).epsilon(1e-6));
  CHECK(curve.pieces[0].beta_s_per_byte == doctest::Approx(1e-10).epsilon(1e-6));
  CHECK(curve.max_residual_fraction < 1e-9);
}

TEST_CASE("a known break at a measured size is recovered") {
  std::vector<SamplePoint> points;
  for (double bytes : sweep(64, 64 << 20, 2)) {
    points.push_back({bytes, bent(bytes, 2e-6, 1e-9, 65536, 1e-10)});
  }
  const CalibratedCurve curve = fit_pieces(points);
  check_well_formed(curve);
  REQUIRE(curve.pieces.size() == 2);
  CHECK(curve.pieces[0].to_bytes == 65536);
  CHECK(curve.pieces[0].alpha_s == doctest::Approx(2e-6).epsilon(1e-6));
  CHECK(curve.pieces[0].beta_s_per_byte == doctest::Approx(1e-9).epsilon(1e-6));
  CHECK(curve.pieces[1].beta_s_per_byte == doctest::Approx(1e-10).epsilon(1e-6));
}

TEST_CASE("three known pieces are recovered, and max_pieces is obeyed") {
  std::vector<SamplePoint> points;
  for (double bytes : sweep(64, 256 << 20, 2)) {
    points.push_back(
        {bytes, bent(bytes, 2e-6, 2e-9, 8192, 5e-10) - 4e-10 * std::max(0.0, bytes - (4 << 20))});
  }
  const CalibratedCurve curve = fit_pieces(points);
  check_well_formed(curve);
  REQUIRE(curve.pieces.size() == 3);
  CHECK(curve.pieces[0].to_bytes == 8192);
  CHECK(curve.pieces[1].to_bytes == (4 << 20));
  CHECK(fit_pieces(points, 2).pieces.size() <= 2);
  CHECK(fit_pieces(points, 1).pieces.size() == 1);
  CHECK(fit_pieces(points, 1).max_residual_fraction > curve.max_residual_fraction);
}

TEST_CASE("alpha and beta are never negative") {
  // Faster than proportional at small sizes: an unconstrained line would start below zero.
  std::vector<SamplePoint> points;
  for (double bytes : sweep(1024, 1 << 24, 4))
    points.push_back({bytes, 1e-12 * std::pow(bytes, 1.3)});
  check_well_formed(fit_pieces(points));
  check_well_formed(fit_pieces(points, 1));
  CHECK(fit_pieces(points, 1).pieces[0].alpha_s == 0);
  // Falling times, as a noisy latency-bound sweep shows them.
  const CalibratedCurve falling =
      fit_pieces({{8, 5e-6}, {16, 4.5e-6}, {32, 4e-6}, {64, 3.5e-6}, {128, 3e-6}});
  check_well_formed(falling);
  CHECK(falling.pieces[0].beta_s_per_byte == 0);
}

TEST_CASE("noise: held-out sizes are predicted to about the noise") {
  std::mt19937 random(7);
  for (int trial = 0; trial < 20; ++trial) {
    CAPTURE(trial);
    std::uniform_real_distribution<double> noise(0.95, 1.05);
    const double alpha = std::pow(10.0, std::uniform_real_distribution<double>(-6, -4)(random));
    const double beta = std::pow(10.0, std::uniform_real_distribution<double>(-10.5, -9)(random));
    std::vector<SamplePoint> points;
    for (double bytes : sweep(256, 64 << 20, 2)) {
      points.push_back({bytes, (alpha + beta * bytes) * noise(random)});
    }
    const CalibratedCurve curve = fit_pieces(points);
    check_well_formed(curve);
    CHECK(curve.max_residual_fraction < 0.11);
    for (double bytes : sweep(384, 48 << 20, 2)) {
      bool extrapolated = true;
      CHECK(curve_time_s(curve, bytes, &extrapolated) ==
            doctest::Approx(alpha + beta * bytes).epsilon(0.08));
      CHECK_FALSE(extrapolated);
    }
  }
}

TEST_CASE("residuals are those of the curve that is returned") {
  std::vector<SamplePoint> points = sample(sweep(64, 1 << 22, 2), 1e-5, 1e-9);
  points[5].seconds *= 1.5;
  const CalibratedCurve curve = fit_pieces(points);
  double worst = 0;
  for (const SamplePoint& point : points) {
    const double fitted = curve_time_s(curve, point.bytes, nullptr);
    worst = std::max(worst, std::abs(fitted / point.seconds - 1));
  }
  CHECK(curve.max_residual_fraction == doctest::Approx(worst));
}

TEST_CASE("outside the measured range is said") {
  const CalibratedCurve curve = fit_pieces(sample(sweep(1024, 1 << 20, 2), 1e-5, 1e-9));
  bool extrapolated = false;
  CHECK(curve_time_s(curve, 2 << 20, &extrapolated) == doctest::Approx(1e-5 + 1e-9 * (2 << 20)));
  CHECK(extrapolated);
  curve_time_s(curve, 512, &extrapolated);
  CHECK(extrapolated);
  curve_time_s(curve, 1024, &extrapolated);
  CHECK_FALSE(extrapolated);
  curve_time_s(curve, 1 << 20, &extrapolated);
  CHECK_FALSE(extrapolated);
  curve_time_s(CalibratedCurve{}, 1, &extrapolated);
  CHECK(extrapolated);
}

TEST_CASE("a curve needs two sizes; order, repeats and empty payloads do not matter") {
  const auto refuse = [](std::vector<SamplePoint> points) {
    try {
      fit_pieces(std::move(points));
    } catch (const Error& error) {
      return error.code();
    }
    return std::string("accepted");
  };
  CHECK(refuse({}) == "NQD2201");
  CHECK(refuse({{8, 1e-6}, {8, 2e-6}}) == "NQD2201");
  CHECK(refuse({{0, 1e-6}, {8, 2e-6}}) == "NQD2201");

  std::vector<SamplePoint> points = sample(sweep(64, 1 << 20, 2), 1e-5, 1e-9);
  const CalibratedCurve sorted = fit_pieces(points);
  std::reverse(points.begin(), points.end());
  points.push_back(points.front());
  points.push_back({0, 1e-6});
  const CalibratedCurve shuffled = fit_pieces(points);
  CHECK(shuffled.pieces[0].alpha_s == doctest::Approx(sorted.pieces[0].alpha_s));
}

TEST_CASE("a sweep of a thousand sizes is fitted") {
  std::vector<SamplePoint> points;
  for (int i = 1; i <= 1000; ++i) {
    const double bytes = 1048576.0 * i;
    points.push_back({bytes, bent(bytes, 5e-5, 1e-9, 200 * 1048576.0, 3e-10)});
  }
  const CalibratedCurve curve = fit_pieces(points);
  check_well_formed(curve);
  CHECK(curve.max_residual_fraction < 0.05);
}

}  // namespace
}  // namespace nqd::planner

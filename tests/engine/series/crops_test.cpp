// The generator of fields with crops: pure functions of seed and index, with the statistics that it
// promises.
#include "engine/data/crops.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

using namespace nqd;
using engine::CropGenerator;
using engine::kCropFeatures;

namespace {

constexpr std::int64_t kSteps = 365;

std::vector<float> features_of(const CropGenerator& crops, std::uint64_t sample,
                               std::int64_t steps = kSteps) {
  std::vector<float> out(static_cast<std::size_t>(steps * kCropFeatures));
  crops.features(sample, out);
  return out;
}

double at(const std::vector<float>& features, std::int64_t step, std::int64_t feature) {
  return features[static_cast<std::size_t>(step * kCropFeatures + feature)];
}

double reflectance(const std::vector<float>& features, std::int64_t step, std::int64_t band) {
  return 0.15 * at(features, step, band) + 0.2;
}

}  // namespace

TEST_CASE("a sample depends on the seed and its index alone") {
  const CropGenerator crops({.seed = 5});
  const std::vector<float> eleven = features_of(crops, 11);
  features_of(crops, 3);
  CHECK(features_of(crops, 11) == eleven);
  CHECK(features_of(CropGenerator({.seed = 5}), 11) == eleven);
  CHECK(features_of(CropGenerator({.seed = 6}), 11) != eleven);
  CHECK(features_of(crops, 12) != eleven);
  CHECK(std::all_of(eleven.begin(), eleven.end(),
                    [](float x) { return std::isfinite(x) && std::abs(x) < 12; }));
}

TEST_CASE("phenology is a double logistic") {
  const engine::Phenology p{
      .base = 0.2, .amplitude = 0.6, .start = 100, .rise = 0.1, .end = 220, .fall = 0.08};
  CHECK(p.ndvi(-500) == doctest::Approx(0.2));
  CHECK(p.ndvi(900) == doctest::Approx(0.2));
  // Half way up at the inflection, while next to nothing has withered.
  CHECK(p.ndvi(100) == doctest::Approx(0.2 + 0.6 * (0.5 - 1 / (1 + std::exp(0.08 * 120)))));
  CHECK(p.ndvi(160) > 0.78);
}

TEST_CASE("clear observations carry the NDVI of the field, others the last of them") {
  const CropGenerator crops({.seed = 7});
  double squares = 0;
  int clear = 0;
  for (std::uint64_t sample = 0; sample < 40; ++sample) {
    const engine::Phenology phenology = crops.phenology(sample);
    const std::vector<float> features = features_of(crops, sample);
    for (std::int64_t step = 0; step < kSteps; ++step) {
      if (at(features, step, 10) == 0) {
        for (std::int64_t band = 0; band < 10; ++band) {
          REQUIRE(at(features, step, band) == (step == 0 ? 0 : at(features, step - 1, band)));
        }
        continue;
      }
      const double red = reflectance(features, step, 2);
      const double infrared = reflectance(features, step, 6);
      // Noise of 0.01 a band weighs in NDVI by 1 / (their sum), about.
      const double error = ((infrared - red) / (infrared + red) - phenology.ndvi(crops.day(step))) *
                           (infrared + red);
      squares += error * error;
      ++clear;
    }
  }
  CHECK(clear > 1000);
  const double sigma = std::sqrt(squares / clear);
  CHECK(sigma > 0.01);
  CHECK(sigma < 0.022);
}

TEST_CASE("regions have their own share of clear sky, and passes come every five and six days") {
  const CropGenerator crops({.seed = 8, .regions = 4});
  for (std::int64_t region = 0; region < 4; ++region) {
    double seen = 0, heard = 0;
    constexpr int kFields = 60;
    for (int i = 0; i < kFields; ++i) {
      const auto sample = static_cast<std::uint64_t>(region + 4 * i);
      CHECK(crops.region(sample) == region);
      const std::vector<float> features = features_of(crops, sample);
      for (std::int64_t step = 0; step < kSteps; ++step) {
        seen += at(features, step, 10);
        heard += at(features, step, 13);
      }
    }
    CHECK(seen / (kFields * kSteps / 5.0) == doctest::Approx(crops.clear_sky(region)).epsilon(0.1));
    CHECK(heard / (kFields * kSteps) == doctest::Approx(1 / 6.0).epsilon(0.03));
  }
}

TEST_CASE("speckle has the variance of four looks") {
  const CropGenerator crops({.seed = 9});
  // Decibels of two passes that follow each other differ by speckle, but for what grows between.
  std::vector<double> differences;
  for (std::uint64_t sample = 0; sample < 60; ++sample) {
    const std::vector<float> features = features_of(crops, sample);
    double last = 0;
    bool any = false;
    for (std::int64_t step = 0; step < kSteps; ++step) {
      if (at(features, step, 13) == 0) continue;
      const double decibels = 4 * at(features, step, 12) - 17;
      if (any) differences.push_back(decibels - last);
      last = decibels;
      any = true;
    }
  }
  double square = 0;
  for (const double d : differences) square += d * d / static_cast<double>(differences.size());
  // Variance of 10·log10 of a gamma of shape 4: (10 / ln 10)² · ψ'(4), ψ'(4) = π²/6 − 49/36.
  const double of_one =
      std::pow(10 / std::log(10.0), 2) * (std::acos(-1.0) * std::acos(-1.0) / 6 - 49.0 / 36);
  CHECK(square / 2 > of_one * 0.95);
  CHECK(square / 2 < of_one * 1.25);
}

TEST_CASE("classes are drawn alike, and steps cut the year") {
  const CropGenerator crops({.seed = 10, .classes = 5, .steps = 12});
  std::vector<int> counts(5);
  for (std::uint64_t sample = 0; sample < 5000; ++sample) {
    ++counts.at(static_cast<std::size_t>(crops.label(sample)));
  }
  for (const int count : counts) CHECK(std::abs(count - 1000) < 120);
  CHECK(crops.day(0) == doctest::Approx(365 / 24.0));
  CHECK(crops.day(11) == doctest::Approx(365 - 365 / 24.0));
  CHECK(features_of(crops, 3, 12).size() == 12 * 18);
}

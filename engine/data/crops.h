// Synthetic satellite time series of fields with crops: what a classifier of crops reads, made up.
// Nothing here was observed; the numbers only have the structure of such data.
//
// Every value is a pure function of the seed and of what it describes (a crop, a region, a sample),
// drawn with Philox4x32-10: sample i is the same however many there are and whoever makes it.
//
//   Phenology   NDVI(t) = base + amplitude · (1 / (1 + e^(−rise (t − start)))
//                                          − 1 / (1 + e^(−fall (t − end)))), t in days: the double
//               logistic of Beck et al. 2006 (doi:10.1016/j.rse.2005.10.021). A crop has its own
//               six numbers; a region shifts start and end (σ 8 days), a field shifts them again
//               (σ 4 days) and scales the amplitude (σ 6 %).
//   Optical     ten bands, mixtures of a soil and a leaf spectrum by green cover, red and near
//               infrared (bands 2 and 6) such that their NDVI is the phenology's; noise σ 0.01. A
//               satellite passes every five days; clouds are a two-state Markov chain with the
//               region's share of clear sky. What it does not see keeps its last value, 0 before
//               the first; a flag says which.
//   Radar       VV and VH backscatter of moist soil and cover in decibels, times speckle: gamma of
//               mean 1 and variance 1 / kLooks. A pass every six days, through clouds.
//   Weather     temperature (an annual cycle and a first-order autoregression), rain on cloudy days
//               (exponential), soil moisture (rain that drains in ten days), radiation (an annual
//               cycle, less under clouds).
//
// Features of a time step, each about of unit size: 0–9 (reflectance − 0.2) / 0.15; 10 optical
// flag; 11 (VV dB + 10) / 4; 12 (VH dB + 17) / 4; 13 radar flag; 14 (°C − 12) / 8; 15 log(1 + mm a
// day) / 2; 16 2 · moisture − 1; 17 2 · radiation − 1.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace nqd::engine {

inline constexpr std::int64_t kCropFeatures = 18;
inline constexpr std::array<std::string_view, kCropFeatures> kCropFeatureNames = {
    "blue",
    "green",
    "red",
    "red_edge_1",
    "red_edge_2",
    "red_edge_3",
    "near_infrared",
    "narrow_nir",
    "swir_1",
    "swir_2",
    "optical_observed",
    "radar_vv",
    "radar_vh",
    "radar_observed",
    "temperature",
    "rain",
    "soil_moisture",
    "radiation"};
inline constexpr int kLooks = 4;

struct Phenology {
  double base = 0, amplitude = 0;
  double start = 0, rise = 0;  // day, 1 / days
  double end = 0, fall = 0;
  double ndvi(double day) const;
};

struct CropWorld {
  std::uint64_t seed = 1234;
  std::int64_t regions = 8;
  std::int64_t classes = 16;
  std::int64_t steps = 365;  // of equal length, in a year
};

class CropGenerator {
 public:
  // regions, classes and steps are at least 1.
  explicit CropGenerator(const CropWorld& world) : world_(world) {}

  // Regions take turns; the class is drawn, all alike.
  std::int64_t region(std::uint64_t sample) const;
  std::int32_t label(std::uint64_t sample) const;
  // Of the sample's field, with the region's and the field's own deviations.
  Phenology phenology(std::uint64_t sample) const;
  // The region's share of clear sky.
  double clear_sky(std::int64_t region) const;
  // The day of the middle of a time step.
  double day(std::int64_t step) const;
  // out [steps, kCropFeatures].
  void features(std::uint64_t sample, std::span<float> out) const;

 private:
  CropWorld world_;
};

}  // namespace nqd::engine

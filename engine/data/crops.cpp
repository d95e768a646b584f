#include "engine/data/crops.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "engine/philox.h"

namespace nqd::engine {
namespace {

constexpr double kYear = 365;
constexpr std::size_t kBands = 10;
constexpr std::size_t kRed = 2;
constexpr std::size_t kInfrared = 6;
using Spectrum = std::array<double, kBands>;
constexpr Spectrum kSoil = {0.08, 0.11, 0.15, 0.17, 0.19, 0.21, 0.23, 0.24, 0.32, 0.28};
constexpr Spectrum kLeaf = {0.03, 0.07, 0.03, 0.10, 0.30, 0.38, 0.42, 0.43, 0.22, 0.11};

// What a stream of numbers describes.
enum class Of : std::uint32_t { kCrop = 1, kRegion, kField, kClouds, kOptical, kRadar, kWeather };

// Numbers 0, 1, 2, … of one thing.
class Draws {
 public:
  Draws(std::uint64_t seed, Of what, std::uint64_t which)
      : key_{low(seed), high(seed)}, what_(static_cast<std::uint32_t>(what)), which_(which) {}

  // In (0, 1).
  double uniform() {
    if (next_ % 4 == 0) {
      block_ = philox4x32_10({next_ / 4, what_, low(which_), high(which_)}, key_);
    }
    return (block_[next_++ % 4] + 0.5) * 0x1p-32;
  }
  double between(double least, double most) { return least + (most - least) * uniform(); }
  double normal(double sigma) {
    const double radius = std::sqrt(-2 * std::log(uniform()));
    return sigma * radius * std::cos(2 * std::numbers::pi * uniform());
  }
  double exponential(double mean) { return -mean * std::log(uniform()); }
  // Mean 1, variance 1 / looks.
  double gamma(int looks) {
    double sum = 0;
    for (int i = 0; i < looks; ++i) sum += exponential(1.0 / looks);
    return sum;
  }

 private:
  static std::uint32_t low(std::uint64_t x) { return static_cast<std::uint32_t>(x); }
  static std::uint32_t high(std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); }

  PhiloxKey key_;
  std::uint32_t what_;
  std::uint64_t which_;
  std::uint32_t next_ = 0;
  PhiloxCounter block_{};
};

struct Crop {
  Phenology phenology;
  Spectrum leaf{};
  double vv_loss = 0;  // dB at full cover: leaves hide the soil
  double vh_gain = 0;  // dB at full cover: leaves scatter
};

Crop make_crop(std::uint64_t seed, std::int64_t label) {
  Draws draw(seed, Of::kCrop, static_cast<std::uint64_t>(label));
  Crop crop;
  Phenology& p = crop.phenology;
  p.base = draw.between(0.12, 0.25);
  p.amplitude = draw.between(0.60, 0.92) - p.base;
  p.start = draw.between(60, 180);
  p.rise = draw.between(0.05, 0.15);
  p.end = p.start + draw.between(60, 150);
  p.fall = draw.between(0.04, 0.14);
  for (std::size_t band = 0; band < kBands; ++band) {
    crop.leaf[band] = kLeaf[band] * draw.between(0.8, 1.2);
  }
  crop.vv_loss = draw.between(1, 5);
  crop.vh_gain = draw.between(1, 7);
  return crop;
}

struct Region {
  double shift = 0;  // days, of the season
  double clear = 0;  // share of clear sky
  double soil = 0;   // brightness
  double temperature = 0, cycle = 0, warmest = 0;
  double phase = 0;  // days, of the satellites' passes
};

Region make_region(std::uint64_t seed, std::int64_t number) {
  Draws draw(seed, Of::kRegion, static_cast<std::uint64_t>(number));
  Region region;
  region.shift = draw.normal(8);
  region.clear = draw.between(0.35, 0.75);
  region.soil = draw.between(0.8, 1.25);
  region.temperature = draw.between(8, 16);
  region.cycle = draw.between(8, 12);
  region.warmest = draw.between(190, 210);
  region.phase = draw.between(0, 30);
  return region;
}

double annual(double day, double highest) {
  return std::cos(2 * std::numbers::pi * (day - highest) / kYear);
}

// Whether a satellite passes in the time step before `day`.
bool passes(double day, double step, double every, double phase) {
  return std::floor((day + phase) / every) != std::floor((day - step + phase) / every);
}

// Clear or cloudy, step after step: days that follow each other resemble each other.
class Sky {
 public:
  Sky(double clear, double step, Draws draw)
      : clear_(clear), memory_(std::pow(0.7, step)), draw_(draw) {
    now_ = draw_.uniform() < clear_;
  }
  bool next() {
    const double chance = clear_ + ((now_ ? 1.0 : 0.0) - clear_) * memory_;
    return now_ = draw_.uniform() < chance;
  }

 private:
  double clear_, memory_;
  Draws draw_;
  bool now_;
};

// Temperature, rain, moisture, radiation: features 14 to 17.
class Weather {
 public:
  Weather(const Region& region, double step, Draws draw)
      : region_(region), step_(step), memory_(std::pow(0.8, step)), draw_(draw) {}

  double moisture() const { return moisture_; }
  void next(double day, bool clear, float* out) {
    deviation_ = memory_ * deviation_ + draw_.normal(3 * std::sqrt(1 - memory_ * memory_));
    const double celsius =
        region_.temperature + region_.cycle * annual(day, region_.warmest) + deviation_;
    const double wet = draw_.uniform();
    const double amount = draw_.exponential(6);
    const double rain = !clear && wet < 0.5 ? amount : 0;
    moisture_ = std::min(1.0, moisture_ * std::exp(-step_ / 10) + rain / 20);
    const double radiation = (0.6 + 0.4 * annual(day, 172)) * (clear ? 1 : 0.45);
    out[0] = static_cast<float>((celsius - 12) / 8);
    out[1] = static_cast<float>(std::log1p(rain) / 2);
    out[2] = static_cast<float>(2 * moisture_ - 1);
    out[3] = static_cast<float>(2 * radiation - 1);
  }

 private:
  const Region& region_;
  double step_, memory_;
  Draws draw_;
  double deviation_ = 0;
  double moisture_ = 0.5;
};

double cover_of(double ndvi) { return std::clamp((ndvi - 0.1) / 0.85, 0.0, 1.0); }

// Features 0 to 9 of an observation.
void observe_bands(const Crop& crop, const Region& region, double ndvi, Draws& draw, float* out) {
  const double cover = cover_of(ndvi);
  Spectrum bands{};
  for (std::size_t i = 0; i < kBands; ++i) {
    bands[i] = kSoil[i] * region.soil * (1 - cover) + crop.leaf[i] * cover;
  }
  const double both = bands[kRed] + bands[kInfrared];
  bands[kRed] = both * (1 - ndvi) / 2;
  bands[kInfrared] = both * (1 + ndvi) / 2;
  for (std::size_t i = 0; i < kBands; ++i) {
    out[i] = static_cast<float>((bands[i] + draw.normal(0.01) - 0.2) / 0.15);
  }
}

// Features 11 and 12 of an observation.
void observe_radar(const Crop& crop, double ndvi, double moisture, Draws& draw, float* out) {
  const double cover = cover_of(ndvi);
  const auto speckled = [&](double decibels) {
    return decibels + 10 * std::log10(draw.gamma(kLooks));
  };
  out[0] = static_cast<float>((speckled(-11 + 3 * moisture - crop.vv_loss * cover) + 10) / 4);
  out[1] = static_cast<float>((speckled(-20 + 2 * moisture + crop.vh_gain * cover) + 17) / 4);
}

}  // namespace

double Phenology::ndvi(double day) const {
  const double green = 1 / (1 + std::exp(-rise * (day - start)));
  const double brown = 1 / (1 + std::exp(-fall * (day - end)));
  return base + amplitude * (green - brown);
}

std::int64_t CropGenerator::region(std::uint64_t sample) const {
  return static_cast<std::int64_t>(sample % static_cast<std::uint64_t>(world_.regions));
}

std::int32_t CropGenerator::label(std::uint64_t sample) const {
  Draws draw(world_.seed, Of::kField, sample);
  return static_cast<std::int32_t>(draw.uniform() * static_cast<double>(world_.classes));
}

Phenology CropGenerator::phenology(std::uint64_t sample) const {
  Draws draw(world_.seed, Of::kField, sample);
  draw.uniform();  // the label's
  Phenology p = make_crop(world_.seed, label(sample)).phenology;
  const double shift = make_region(world_.seed, region(sample)).shift + draw.normal(4);
  p.start += shift;
  p.end += shift;
  p.amplitude = std::min(p.amplitude * (1 + draw.normal(0.06)), 0.97 - p.base);
  return p;
}

double CropGenerator::clear_sky(std::int64_t region) const {
  return make_region(world_.seed, region).clear;
}

double CropGenerator::day(std::int64_t step) const {
  return (static_cast<double>(step) + 0.5) * kYear / static_cast<double>(world_.steps);
}

void CropGenerator::features(std::uint64_t sample, std::span<float> out) const {
  const Crop crop = make_crop(world_.seed, label(sample));
  const Region region = make_region(world_.seed, this->region(sample));
  const Phenology phenology = this->phenology(sample);
  const double step = kYear / static_cast<double>(world_.steps);
  Sky sky(region.clear, step, {world_.seed, Of::kClouds, sample});
  Weather weather(region, step, {world_.seed, Of::kWeather, sample});
  Draws optical(world_.seed, Of::kOptical, sample);
  Draws radar(world_.seed, Of::kRadar, sample);
  std::array<float, kCropFeatures> now{};
  for (std::int64_t i = 0; i < world_.steps; ++i) {
    const double today = day(i);
    const double ndvi = phenology.ndvi(today);
    const bool clear = sky.next();
    weather.next(today, clear, &now[14]);
    const bool seen = clear && passes(today, step, 5, region.phase);
    const bool heard = passes(today, step, 6, region.phase);
    if (seen) observe_bands(crop, region, ndvi, optical, now.data());
    if (heard) observe_radar(crop, ndvi, weather.moisture(), radar, &now[11]);
    now[10] = seen ? 1.0F : 0.0F;
    now[13] = heard ? 1.0F : 0.0F;
    std::copy(now.begin(), now.end(), out.begin() + i * kCropFeatures);
  }
}

}  // namespace nqd::engine

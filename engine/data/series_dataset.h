// A dataset of labelled time series: written by `nqd data synthesize`, read by the trainer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/data/series_format.h"

namespace nqd::engine {

struct SynthesizeOptions {
  std::filesystem::path output;  // folder; created
  std::uint64_t samples = 4096;
  std::uint64_t seed = 1234;
  std::int64_t regions = 10;
  std::int64_t classes = 16;
  std::int64_t steps = 365;  // of a year
  // Whole regions held out, at least one, never all, at least this share of them. In (0, 1).
  double heldout_fraction = 0.2;
};

struct SeriesRegion {
  std::int64_t region = 0;
  std::uint64_t samples = 0;
  std::string split;  // "train" or "heldout"
};

struct IndexedSeries {
  std::uint64_t samples = 0;
  std::string sha256;  // of the payload
};

// dataset.json beside train.series and heldout.series.
struct SeriesIndex {
  std::string generator;  // "crops": the series are synthetic
  SynthesizeOptions options;
  SeriesShape shape;
  std::vector<std::string> features;  // by name
  std::vector<SeriesRegion> regions;
  IndexedSeries train;
  IndexedSeries heldout;
  std::string digest;  // SHA-256 over the payload of train, then of heldout
};

// Fields with crops as engine/data/crops.h makes them, into OUTPUT/{train,heldout}.series and
// OUTPUT/dataset.json. As with prepare_dataset all three are complete on the disk before the first
// is renamed. Throws Error (kUsage NQD2009 options out of range, NQD2002 output not writable;
// kFault NQD4003 disk full).
SeriesIndex synthesize_crops(const SynthesizeOptions& options);

// Throws Error (kUsage, NQD2006) with the path and what is wrong.
SeriesIndex read_series_index(const std::filesystem::path& folder);

// Recomputes every digest and checks each number and label, and that the index describes the files.
// Throws Error (kUsage) NQD2001, NQD2005 or NQD2006 with the first thing that is wrong.
SeriesIndex verify_series(const std::filesystem::path& folder);

struct SeriesStats {
  std::string split;  // "train" or "heldout"
  std::uint64_t regions = 0;
  std::uint64_t samples = 0;
  std::uint64_t distinct_classes = 0;
  // Entropy of the class frequencies: the loss of a model that knows these and nothing else.
  double class_entropy_nats = 0;
  std::vector<double> feature_means;  // by feature, over samples and time steps
};

// Train, then held-out. Reads both files whole.
std::vector<SeriesStats> series_stats(const std::filesystem::path& folder);

}  // namespace nqd::engine

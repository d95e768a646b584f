#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/file.h"
#include "engine/data/crops.h"
#include "engine/data/output_folder.h"
#include "engine/data/sampler.h"
#include "engine/data/series_dataset.h"
#include "engine/io/dataset_json.h"

namespace nqd::engine {
namespace {

[[noreturn]] void refuse(const std::string& what, const std::string& hint) {
  throw Error(ExitCode::kUsage, "NQD2009", what, hint);
}

void check(const SynthesizeOptions& options) {
  constexpr std::int64_t kMostSteps = 100'000;
  if (!(options.heldout_fraction > 0 && options.heldout_fraction < 1)) {
    refuse("the held-out share of the regions is " + std::to_string(options.heldout_fraction) +
               ", expected a number between 0 and 1, both excluded",
           "give --heldout-fraction 0.2");
  }
  if (options.regions < 2) {
    refuse("with " + std::to_string(options.regions) + " region none can be held out",
           "give --regions 2 or more");
  }
  if (options.samples < static_cast<std::uint64_t>(options.regions)) {
    refuse(std::to_string(options.samples) + " samples do not give each of " +
               std::to_string(options.regions) + " regions one",
           "give --samples of at least the number of regions");
  }
  if (options.classes < 1 || options.classes > std::numeric_limits<std::int32_t>::max() ||
      options.steps < 1 || options.steps > kMostSteps) {
    refuse(std::to_string(options.classes) + " classes and " + std::to_string(options.steps) +
               " time steps a year",
           "give --classes of at least 1 and --steps from 1 to 100000");
  }
}

// Which regions are held out: the first of a permutation that the seed decides.
std::vector<SeriesRegion> split_regions(const SynthesizeOptions& options) {
  const auto count = static_cast<std::uint64_t>(options.regions);
  const double share = options.heldout_fraction * static_cast<double>(options.regions);
  const std::int64_t held =
      std::clamp<std::int64_t>(std::llround(std::ceil(share - 1e-9)), 1, options.regions - 1);
  std::vector<SeriesRegion> regions(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    regions[i].region = static_cast<std::int64_t>(i);
    const auto place = static_cast<std::int64_t>(permute(i, count, options.seed, 0));
    regions[i].split = place < held ? "heldout" : "train";
  }
  return regions;
}

// Every sample of the regions of a split, in ascending order.
IndexedSeries write_split(const std::string& split, const CropGenerator& crops,
                          SeriesFileWriter& writer, Sha256& all, SeriesIndex& index) {
  std::vector<float> numbers(index.shape.numbers());
  for (std::uint64_t i = 0; i < index.options.samples; ++i) {
    SeriesRegion& region = index.regions[static_cast<std::size_t>(crops.region(i))];
    if (region.split != split) continue;
    crops.features(i, numbers);
    all.update(writer.append(numbers, crops.label(i)));
    ++region.samples;
  }
  const std::uint64_t samples = writer.samples();
  return {samples, writer.finish()};
}

}  // namespace

SeriesIndex synthesize_crops(const SynthesizeOptions& options) {
  check(options);
  SeriesIndex index;
  index.generator = "crops";
  index.options = options;
  index.shape = {options.steps, kCropFeatures, options.classes};
  index.features.assign(kCropFeatureNames.begin(), kCropFeatureNames.end());
  index.regions = split_regions(options);
  const CropGenerator crops({options.seed, options.regions, options.classes, options.steps});
  OutputFolder folder(options.output);
  SeriesFileWriter train(options.output / "train.series", index.shape);
  SeriesFileWriter heldout(options.output / "heldout.series", index.shape);
  AtomicFile file(options.output / "dataset.json");
  Sha256 all;
  index.train = write_split("train", crops, train, all, index);
  index.heldout = write_split("heldout", crops, heldout, all, index);
  index.digest = all.hex();
  file.write(series_index_json(index));
  file.sync();
  // The index goes last: until then a reader that compares it with the files notices the mix.
  train.commit();
  heldout.commit();
  file.commit();
  folder.keep();
  return index;
}

}  // namespace nqd::engine

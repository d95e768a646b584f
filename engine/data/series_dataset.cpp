#include "engine/data/series_dataset.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/file.h"
#include "engine/data/series_file.h"
#include "engine/data/stats.h"

namespace nqd::engine {
namespace {

constexpr const char* kSplits[] = {"train", "heldout"};

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& why) {
  throw Error(ExitCode::kUsage, "NQD2005", path.string() + ": " + why,
              "write it again with `nqd data synthesize`");
}

std::filesystem::path path_of(const std::filesystem::path& folder, const std::string& split) {
  return folder / (split + ".series");
}

void check_against_index(const std::filesystem::path& path, const SeriesFile& file,
                         const SeriesIndex& index, const std::string& split) {
  const IndexedSeries& entry = split == "train" ? index.train : index.heldout;
  if (file.shape() != index.shape) refuse(path, "dataset.json states another shape");
  if (file.samples() != entry.samples || file.digest() != entry.sha256) {
    refuse(path, "it is not the file that dataset.json describes (SHA-256 " + file.digest() +
                     ", expected " + entry.sha256 + ")");
  }
  std::uint64_t samples = 0;
  for (const SeriesRegion& region : index.regions) {
    if (region.split == split) samples += region.samples;
  }
  if (samples != entry.samples) {
    refuse(path, "the regions of dataset.json have " + std::to_string(samples) +
                     " samples, the file " + std::to_string(entry.samples));
  }
}

SeriesStats stats_of(const SeriesFile& file) {
  const SeriesShape& shape = file.shape();
  SeriesStats stats;
  std::vector<std::uint64_t> counts(static_cast<std::size_t>(shape.classes));
  std::vector<double> sums(static_cast<std::size_t>(shape.features));
  std::vector<float> numbers(shape.numbers());
  std::int32_t label = 0;
  for (std::uint64_t i = 0; i < file.samples(); ++i) {
    file.load(i, std::as_writable_bytes(std::span(numbers)), {&label, 1});
    ++counts[static_cast<std::size_t>(label)];
    for (std::size_t n = 0; n < numbers.size(); ++n) sums[n % sums.size()] += numbers[n];
  }
  stats.samples = file.samples();
  stats.distinct_classes = static_cast<std::uint64_t>(
      std::count_if(counts.begin(), counts.end(), [](std::uint64_t count) { return count > 0; }));
  stats.class_entropy_nats = entropy_nats(counts, file.samples());
  const double rows = static_cast<double>(file.samples()) * static_cast<double>(shape.steps);
  for (const double sum : sums) stats.feature_means.push_back(sum / rows);
  return stats;
}

}  // namespace

SeriesIndex verify_series(const std::filesystem::path& folder) {
  SeriesIndex index = read_series_index(folder);
  Sha256 all;
  for (const std::string split : kSplits) {
    const std::filesystem::path path = path_of(folder, split);
    const SeriesFile file(path);
    file.verify();
    check_against_index(path, file, index, split);
    all.update(file.payload());
  }
  if (const std::string digest = all.hex(); digest != index.digest) {
    refuse(folder / "dataset.json",
           "it states the digest " + index.digest + ", the files have " + digest);
  }
  return index;
}

std::vector<SeriesStats> series_stats(const std::filesystem::path& folder) {
  const SeriesIndex index = read_series_index(folder);
  std::vector<SeriesStats> all;
  for (const std::string split : kSplits) {
    SeriesStats stats = stats_of(SeriesFile(path_of(folder, split)));
    stats.split = split;
    stats.regions = static_cast<std::uint64_t>(
        std::count_if(index.regions.begin(), index.regions.end(),
                      [&](const SeriesRegion& region) { return region.split == split; }));
    all.push_back(std::move(stats));
  }
  return all;
}

}  // namespace nqd::engine

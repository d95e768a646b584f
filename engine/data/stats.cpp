#include "engine/data/stats.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/data/dataset.h"

namespace nqd::engine {
namespace {

std::vector<std::uint64_t> token_counts(const TokenFile& file) {
  const std::size_t width = file.bytes_per_token();
  const auto payload = file.payload();
  std::vector<std::uint64_t> counts(width == 1 ? 256 : 65'536, 0);
  for (std::size_t at = 0; at < payload.size(); at += width) {
    std::uint16_t token = 0;  // little-endian: one byte fills the lower half
    std::memcpy(&token, payload.data() + at, width);
    ++counts[token];
  }
  return counts;
}

}  // namespace

double entropy_nats(const std::vector<std::uint64_t>& counts, std::uint64_t total) {
  double entropy = 0;
  for (const std::uint64_t count : counts) {
    if (count == 0) continue;
    const double p = static_cast<double>(count) / static_cast<double>(total);
    entropy -= p * std::log(p);
  }
  return entropy;
}

std::vector<SplitStats> dataset_stats(const std::filesystem::path& folder) {
  const DatasetIndex index = read_dataset_index(folder);
  std::vector<SplitStats> all;
  for (const std::string split : {"train", "heldout"}) {
    const TokenFile file(folder / (split + ".tokens"));
    const std::vector<std::uint64_t> counts = token_counts(file);
    SplitStats stats;
    stats.split = split;
    stats.tokens = file.tokens();
    stats.documents = static_cast<std::uint64_t>(
        std::count_if(index.documents.begin(), index.documents.end(),
                      [&](const PreparedDocument& document) { return document.split == split; }));
    stats.distinct_tokens = static_cast<std::uint64_t>(
        std::count_if(counts.begin(), counts.end(), [](std::uint64_t count) { return count > 0; }));
    stats.unigram_entropy_nats = entropy_nats(counts, file.tokens());
    all.push_back(stats);
  }
  return all;
}

}  // namespace nqd::engine

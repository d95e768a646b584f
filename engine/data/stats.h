// What a prepared dataset holds, for people and for choosing a model's size.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace nqd::engine {

struct SplitStats {
  std::string split;  // "train" or "heldout"
  std::uint64_t documents = 0;
  std::uint64_t tokens = 0;
  std::uint64_t distinct_tokens = 0;
  // Entropy of the token frequencies, -Σ p ln p: the loss of a model that knows the frequencies and
  // no context. A training run that does not get below it has learnt nothing else.
  double unigram_entropy_nats = 0;
};

// −Σ p ln p over counts of which `total` is the sum.
double entropy_nats(const std::vector<std::uint64_t>& counts, std::uint64_t total);

// Train, then held-out. Reads both files whole. Throws Error as TokenFile and read_dataset_index
// do.
std::vector<SplitStats> dataset_stats(const std::filesystem::path& folder);

}  // namespace nqd::engine

#include "engine/data/related.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <utility>

namespace nqd::engine {
namespace {

constexpr std::size_t kWords = 8;
constexpr double kRelatedShare = 0.25;
constexpr std::size_t kMostPairwise = 32;

// FNV-1a, 64 bits.
constexpr std::uint64_t kFnvBasis = 0xcbf29ce484222325;
constexpr std::uint64_t kFnvPrime = 0x100000001b3;

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

std::uint64_t hash_word(std::string_view word) {
  std::uint64_t hash = kFnvBasis;
  for (const char c : word) hash = (hash ^ static_cast<unsigned char>(c)) * kFnvPrime;
  return hash;
}

// The last kWords word hashes, the oldest at `oldest`, as one hash. FNV's low bits are weak, and
// keep_one_in looks at those: the upper half is folded in.
std::uint64_t hash_run(const std::array<std::uint64_t, kWords>& words, std::size_t oldest) {
  std::uint64_t hash = kFnvBasis;
  for (std::size_t i = 0; i < kWords; ++i) {
    hash = (hash ^ words[(oldest + i) % kWords]) * kFnvPrime;
    hash ^= hash >> 32;
  }
  return hash;
}

// For each pair of texts (first < second) how many passages they share.
std::map<std::pair<std::size_t, std::size_t>, std::size_t> shared_counts(
    const std::vector<Passages>& texts) {
  std::vector<std::pair<std::uint64_t, std::size_t>> owners;
  for (std::size_t text = 0; text < texts.size(); ++text) {
    for (const std::uint64_t passage : texts[text]) owners.emplace_back(passage, text);
  }
  std::sort(owners.begin(), owners.end());
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> counts;
  for (std::size_t begin = 0; begin < owners.size();) {
    std::size_t end = begin + 1;
    while (end < owners.size() && owners[end].first == owners[begin].first) ++end;
    const bool pairwise = end - begin <= kMostPairwise;
    for (std::size_t i = begin; i < end; ++i) {
      const std::size_t last = pairwise ? end : std::min(i + 2, end);
      for (std::size_t j = i + 1; j < last; ++j) {
        ++counts[{owners[i].second, owners[j].second}];
      }
    }
    begin = end;
  }
  return counts;
}

// Root of a text's group, paths halved on the way.
std::size_t root_of(std::vector<std::size_t>& parents, std::size_t text) {
  while (parents[text] != text) text = parents[text] = parents[parents[text]];
  return text;
}

}  // namespace

Passages passages_of(std::string_view text, std::uint64_t keep_one_in) {
  Passages passages;
  std::array<std::uint64_t, kWords> words{};
  std::size_t count = 0;
  for (std::size_t at = 0; at < text.size();) {
    if (is_space(text[at])) {
      ++at;
      continue;
    }
    std::size_t end = at;
    while (end < text.size() && !is_space(text[end])) ++end;
    words[count % kWords] = hash_word(text.substr(at, end - at));
    ++count;
    at = end;
    if (count < kWords) continue;
    const std::uint64_t passage = hash_run(words, count % kWords);
    if (passage % keep_one_in == 0) passages.push_back(passage);
  }
  std::sort(passages.begin(), passages.end());
  passages.erase(std::unique(passages.begin(), passages.end()), passages.end());
  return passages;
}

std::vector<std::size_t> related_groups(const std::vector<Passages>& texts) {
  std::vector<std::size_t> parents(texts.size());
  std::iota(parents.begin(), parents.end(), std::size_t{0});
  for (const auto& [pair, shared] : shared_counts(texts)) {
    const std::size_t fewer = std::min(texts[pair.first].size(), texts[pair.second].size());
    if (static_cast<double>(shared) < kRelatedShare * static_cast<double>(fewer)) continue;
    const std::size_t a = root_of(parents, pair.first);
    const std::size_t b = root_of(parents, pair.second);
    parents[std::max(a, b)] = std::min(a, b);
  }
  std::map<std::size_t, std::size_t> numbers;
  std::vector<std::size_t> groups;
  for (std::size_t text = 0; text < texts.size(); ++text) {
    groups.push_back(numbers.emplace(root_of(parents, text), numbers.size()).first->second);
  }
  return groups;
}

}  // namespace nqd::engine

#include "planner/config/suggest.h"

#include <algorithm>
#include <cctype>
#include <cstddef>

namespace nqd::planner {
namespace {

// Longer words are no key of ours; the bound keeps hostile input from costing quadratic time.
constexpr std::size_t kLongestWord = 64;

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

int allowed_edits(std::string_view word) {
  if (word.size() <= 3) return 1;
  return std::max(2, static_cast<int>(word.size() / 3));
}

std::optional<std::string> only_completion(std::string_view word,
                                           const std::vector<std::string_view>& candidates) {
  std::optional<std::string> found;
  if (word.size() < 3) return found;
  for (const std::string_view candidate : candidates) {
    if (!lower(candidate).starts_with(lower(word))) continue;
    if (found) return std::nullopt;
    found = candidate;
  }
  return found;
}

}  // namespace

int edit_distance(std::string_view first, std::string_view second) {
  const std::string a = lower(first);
  const std::string b = lower(second);
  std::vector<int> two_back(b.size() + 1);
  std::vector<int> previous(b.size() + 1);
  std::vector<int> current(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) previous[j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    current[0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int replace = previous[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      current[j] = std::min({previous[j] + 1, current[j - 1] + 1, replace});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        current[j] = std::min(current[j], two_back[j - 2] + 1);
      }
    }
    two_back.swap(previous);
    previous.swap(current);
  }
  return previous[b.size()];
}

std::optional<std::string> closest(std::string_view word,
                                   const std::vector<std::string_view>& candidates) {
  if (word.empty() || word.size() > kLongestWord) return std::nullopt;
  std::optional<std::string> best;
  int best_distance = allowed_edits(word) + 1;
  for (const std::string_view candidate : candidates) {
    const auto longer = std::max(word.size(), candidate.size());
    const auto shorter = std::min(word.size(), candidate.size());
    if (static_cast<int>(longer - shorter) >= best_distance) continue;
    const int distance = edit_distance(word, candidate);
    if (distance >= best_distance) continue;
    best_distance = distance;
    best = candidate;
  }
  return best ? best : only_completion(word, candidates);
}

std::string joined(const std::vector<std::string_view>& words, std::string_view separator) {
  std::string text;
  for (const std::string_view word : words) {
    if (!text.empty()) text += separator;
    text += word;
  }
  return text;
}

}  // namespace nqd::planner

#include "engine/data/split.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/file.h"

namespace nqd::engine {
namespace {

// Candidate indices in drawing order.
std::vector<std::size_t> drawing_order(std::span<const SplitCandidate> candidates,
                                       std::uint64_t seed) {
  std::vector<std::string> keys;
  for (const SplitCandidate& candidate : candidates) {
    keys.push_back(sha256_hex(std::to_string(seed) + " " + candidate.sha256));
  }
  std::vector<std::size_t> order(candidates.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return keys[a] < keys[b]; });
  return order;
}

bool fewer_bytes(const SplitCandidate& a, const SplitCandidate& b) {
  return a.bytes != b.bytes ? a.bytes < b.bytes : a.sha256 < b.sha256;
}

// Takes candidates in order, passing over those that would exceed `most` bytes, until `wanted` are
// held.
std::optional<std::vector<bool>> draw(std::span<const SplitCandidate> candidates,
                                      const std::vector<std::size_t>& order, double wanted,
                                      double most) {
  std::vector<bool> chosen(candidates.size(), false);
  double held = 0;
  for (const std::size_t i : order) {
    const auto bytes = static_cast<double>(candidates[i].bytes);
    if (held + bytes > most) continue;
    chosen[i] = true;
    held += bytes;
    if (held >= wanted) return chosen;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::vector<bool>> choose_heldout(std::span<const SplitCandidate> candidates,
                                                double fraction, std::uint64_t seed) {
  if (candidates.size() < 2) return std::nullopt;
  double total = 0;
  for (const SplitCandidate& candidate : candidates) total += static_cast<double>(candidate.bytes);
  const double wanted = fraction * total;
  const double limit = (1 + fraction) / 2 * total;
  const std::vector<std::size_t> order = drawing_order(candidates, seed);
  for (double most = wanted;;) {
    most = std::min(1.25 * most, limit);
    if (auto chosen = draw(candidates, order, wanted, most)) return chosen;
    if (most == limit) break;
  }

  std::vector<bool> chosen(candidates.size(), false);
  const auto [smallest, largest] =
      std::minmax_element(candidates.begin(), candidates.end(), fewer_bytes);
  if (static_cast<double>(largest->bytes) >= wanted) {
    chosen[static_cast<std::size_t>(largest - candidates.begin())] = true;
    return chosen;
  }
  if (total - static_cast<double>(smallest->bytes) < wanted) return std::nullopt;
  chosen.assign(candidates.size(), true);
  chosen[static_cast<std::size_t>(smallest - candidates.begin())] = false;
  return chosen;
}

std::optional<std::size_t> line_end_split(std::string_view text, double fraction) {
  const auto heldout = static_cast<std::size_t>(
      std::max(1.0, std::ceil(fraction * static_cast<double>(text.size()))));
  if (heldout >= text.size()) return std::nullopt;
  const std::size_t end = text.rfind('\n', text.size() - heldout - 1);
  if (end == std::string_view::npos) return std::nullopt;
  return end + 1;
}

}  // namespace nqd::engine

#include "engine/checkpoint/compatible.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/error.h"

namespace nqd::engine {
namespace {

constexpr std::array<std::string_view, 9> kBound = {
    "data.digest",      "model.",          "numerics.",
    "train.dropout",    "train.ema",       "train.global_batch_size",
    "train.optimizer.", "train.precision", "train.seed",
};

bool names(std::string_view pattern, std::string_view key) {
  return pattern.ends_with('.') ? key.starts_with(pattern) : key == pattern;
}

bool is_bound(const std::string& key) {
  return std::any_of(kBound.begin(), kBound.end(),
                     [&](std::string_view pattern) { return names(pattern, key); });
}

std::string value_in(const RunValues& values, const std::string& key) {
  const auto found = values.find(key);
  return found == values.end() ? "nothing" : "`" + found->second + "`";
}

}  // namespace

void check_allowed_changes(const RunValues& keys, const std::vector<std::string>& allowed) {
  for (const std::string& pattern : allowed) {
    const bool known = std::any_of(keys.begin(), keys.end(), [&](const auto& one) {
      return is_bound(one.first) && names(pattern, one.first);
    });
    if (known) continue;
    throw Error(ExitCode::kUsage, "NQD2084",
                "--allow-changed " + pattern + " is none of the keys that a run is compared by",
                "they are data.digest, train.global_batch_size, train.seed, train.precision, "
                "train.dropout, train.ema, and what begins with model., numerics. or "
                "train.optimizer.");
  }
}

void check_resumable(const Manifest& manifest, const RunValues& values,
                     const std::vector<std::string>& allowed) {
  RunValues saved = manifest.config;
  saved["data.digest"] = manifest.data_digest;
  RunValues keys = saved;
  keys.insert(values.begin(), values.end());
  check_allowed_changes(keys, allowed);
  std::string changed;
  std::string first;
  for (const auto& [key, value] : keys) {
    if (!is_bound(key)) continue;
    const auto names_it = [&key = key](std::string_view pattern) { return names(pattern, key); };
    if (std::any_of(allowed.begin(), allowed.end(), names_it)) continue;
    const std::string then = value_in(saved, key);
    const std::string now = value_in(values, key);
    if (then == now) continue;
    changed += "\n  " + key + ": " + then + " then, " + now + " now";
    if (first.empty()) first = key;
  }
  if (changed.empty()) return;
  throw Error(ExitCode::kUsage, "NQD2084",
              "this is not the run that wrote " + manifest.generation + ":" + changed,
              "set them back, start a new run in another checkpoint.path, or, to go on all the "
              "same, pass --allow-changed " +
                  first);
}

}  // namespace nqd::engine

#include "engine/checkpoint/tiers.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"

namespace nqd::engine {
namespace {

struct Tier {
  std::vector<FoundGeneration> found;  // the best first
  std::optional<Error> damage;
};

Tier look_into(const Storage& storage, const std::filesystem::path& root) {
  try {
    return {find_generations(storage, root), std::nullopt};
  } catch (const Error& error) {
    return {{}, error};
  }
}

bool is_newer(const GenerationInfo& a, const GenerationInfo& b) {
  if (is_left_behind(a, b)) return false;
  if (is_left_behind(b, a)) return true;
  return std::pair(a.step, a.written_at) > std::pair(b.step, b.written_at);
}

void add_warning(FoundGeneration& found, const std::string& text) {
  found.warning += (found.warning.empty() ? "" : "\n") + text;
}

// Both best first, and so is what comes of them: the best, and of both what is of its past. `a`
// goes first where both have the same.
std::vector<FoundGeneration> merged(const Storage& storage, std::vector<FoundGeneration> a,
                                    std::vector<FoundGeneration> b) {
  std::vector<FoundGeneration> all;
  auto next_a = a.begin();
  auto next_b = b.begin();
  while (next_a != a.end() && next_b != b.end()) {
    const bool is_b = is_newer(describe_generation(storage, next_b->folder),
                               describe_generation(storage, next_a->folder));
    all.push_back(std::move(is_b ? *next_b++ : *next_a++));
  }
  std::move(next_a, a.end(), std::back_inserter(all));
  std::move(next_b, b.end(), std::back_inserter(all));
  const GenerationInfo head = describe_generation(storage, all.front().folder);
  std::erase_if(all, [&](const FoundGeneration& one) {
    return !is_of_past(describe_generation(storage, one.folder), head);
  });
  return all;
}

}  // namespace

std::vector<FoundGeneration> find_in_tiers(const Storage& storage,
                                           const std::filesystem::path& fast,
                                           const std::filesystem::path& durable) {
  Tier near = look_into(storage, fast);
  Tier far = look_into(storage, durable);
  if (near.found.empty() && far.found.empty()) {
    for (const Tier& tier : {near, far}) {
      if (tier.damage) throw *tier.damage;
    }
    return {};
  }
  if (far.found.empty()) return std::move(near.found);
  const std::filesystem::path newest = far.found.front().folder;
  const std::string copy = "the durable copy in " + newest.string() + " is taken";
  if (near.found.empty()) {
    add_warning(far.found.front(), near.damage ? copy + ": " + near.damage->what()
                                               : fast.string() + " has no generation: " + copy);
    return std::move(far.found);
  }
  const std::string of_near = near.found.front().folder.filename().string();
  std::vector<FoundGeneration> all = merged(storage, std::move(near.found), std::move(far.found));
  if (all.front().folder == newest) {
    add_warning(all.front(), fast.string() + " has only " + of_near + ": " + copy);
  }
  return all;
}

}  // namespace nqd::engine

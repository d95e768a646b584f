#include "engine/checkpoint/tiers.h"

#include <optional>
#include <string>
#include <utility>

#include "base/error.h"

namespace nqd::engine {
namespace {

struct Tier {
  std::optional<FoundGeneration> found;
  std::optional<Error> damage;
};

Tier look_into(const Storage& storage, const std::filesystem::path& root) {
  try {
    return {find_generation(storage, root), std::nullopt};
  } catch (const Error& error) {
    return {std::nullopt, error};
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

}  // namespace

std::vector<FoundGeneration> find_in_tiers(const Storage& storage,
                                           const std::filesystem::path& fast,
                                           const std::filesystem::path& durable) {
  Tier near = look_into(storage, fast);
  Tier far = look_into(storage, durable);
  if (!near.found && !far.found) {
    for (const Tier& tier : {near, far}) {
      if (tier.damage) throw *tier.damage;
    }
    return {};
  }
  if (!far.found) return {std::move(*near.found)};
  const std::string copy = "the durable copy in " + far.found->folder.string() + " is taken";
  if (!near.found) {
    add_warning(*far.found, near.damage ? copy + ": " + near.damage->what()
                                        : fast.string() + " has no generation: " + copy);
    return {std::move(*far.found)};
  }
  const GenerationInfo of_near = describe_generation(storage, near.found->folder);
  const GenerationInfo of_far = describe_generation(storage, far.found->folder);
  if (!is_newer(of_far, of_near)) return {std::move(*near.found), std::move(*far.found)};
  add_warning(*far.found, fast.string() + " has only " + of_near.name + ": " + copy);
  return {std::move(*far.found), std::move(*near.found)};
}

}  // namespace nqd::engine

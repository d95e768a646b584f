#include <variant>

#include "planner/config/resolution.h"

namespace nqd::planner {
namespace {

// A value that the family does not have, or one that was neither given nor derived and has no
// default that a config could spell.
bool is_listed(const Field& field, Resolution& resolution) {
  const std::string& family = resolution.draft.config.model.family;
  if (!applies_to(field, family)) return false;
  if (resolution.given(field.path)) return true;
  const Slot slot = field.slot(resolution.draft);
  if (const auto* const* integer = std::get_if<std::int64_t*>(&slot)) {
    return field.range.contains(static_cast<double>(**integer));
  }
  if (const auto* const* number = std::get_if<double*>(&slot))
    return field.range.contains(**number);
  return !std::holds_alternative<std::optional<std::int64_t>*>(slot);
}

}  // namespace

std::vector<ResolvedValue> resolved_values(Resolution& resolution) {
  std::vector<ResolvedValue> values;
  for (const Field& field : fields()) {
    if (!is_listed(field, resolution)) continue;
    const auto origin = resolution.origins.find(field.path);
    values.push_back({std::string(field.path), value_text(field, resolution.draft),
                      origin == resolution.origins.end() ? "default" : origin->second});
  }
  return values;
}

std::string canonical_yaml(const std::vector<ResolvedValue>& values) {
  std::string text;
  std::string section;
  for (const ResolvedValue& value : values) {
    const std::string_view parent = parent_of(value.path);
    const bool nested = !parent_of(parent).empty();
    if (parent != section) {
      text += (nested ? "  " : "") + std::string(leaf_of(parent)) + ":\n";
      section = parent;
    }
    text += (nested ? "    " : "  ") + std::string(leaf_of(value.path)) + ": " + value.value + "\n";
  }
  return text;
}

}  // namespace nqd::planner

#include <algorithm>
#include <utility>

#include "planner/config/read_value.h"
#include "planner/config/resolution.h"

namespace nqd::planner {
namespace {

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

void forget_places(YamlNode& node) {
  node.place = {};
  for (YamlNode& item : node.items) forget_places(item);
  for (YamlEntry& entry : node.entries) {
    entry.key_place = {};
    forget_places(entry.value);
  }
}

std::string unknown_hint(std::string_view key) {
  if (find_section(key) != nullptr) {
    return std::string(key) + " is a section; set one of its keys: " + std::string(key) +
           ".KEY=VALUE";
  }
  const std::string meant = meant_path(leaf_of(key), parent_of(key));
  if (!meant.empty()) return "did you mean " + meant + "?";
  return "`nqd schema reference` lists every key";
}

// The value as YAML reads it; text keys take it as it stands, so that paths need no quotes.
std::optional<YamlNode> parse_value(const Field& field, std::string_view text, const Source& flags,
                                    Findings& findings) {
  if (field.kind == Kind::kText) {
    return YamlNode{YamlNode::Kind::kScalar, {}, std::string(text), true, {}, {}};
  }
  std::vector<Diagnostic> problems;
  std::optional<YamlNode> node = parse_yaml(Source(flags.name(), std::string(text)), problems);
  if (node) forget_places(*node);
  for (Diagnostic& problem : problems) {
    problem.path = field.path;
    problem.message = std::string(field.path) + ": " + problem.message;
    problem.related.clear();
    flags.point(problem, {});
    findings.add(std::move(problem), field.path);
  }
  return problems.empty() ? std::move(node) : std::nullopt;
}

}  // namespace

std::vector<Assignment> read_overrides(const std::vector<std::string>& overrides,
                                       const Source& flags, Findings& findings) {
  std::vector<Assignment> assignments;
  for (const std::string& flag : overrides) {
    const std::size_t equals = flag.find('=');
    const std::string_view key = trimmed(std::string_view(flag).substr(0, equals));
    if (equals == std::string::npos || key.empty()) {
      Diagnostic diagnostic =
          flags.error("NQD1015", {}, "", "\"" + printable(flag) + "\" is not an override");
      diagnostic.expected = "KEY=VALUE, such as train.steps=50";
      findings.add(std::move(diagnostic), "");
      continue;
    }
    const Field* field = find_field(key);
    if (field == nullptr) field = shorthand_of(key);
    if (field == nullptr) {
      const std::string shown = printable(key);
      Diagnostic diagnostic =
          flags.error("NQD1016", {}, shown, "there is no key \"" + shown + "\"");
      diagnostic.hint = unknown_hint(key);
      findings.add(std::move(diagnostic), "");
      continue;
    }
    const std::string_view text = trimmed(std::string_view(flag).substr(equals + 1));
    std::optional<YamlNode> value = parse_value(*field, text, flags, findings);
    if (value) assignments.push_back({field, {}, std::move(*value), &flags, flags.name()});
  }
  return assignments;
}

}  // namespace nqd::planner

// JSON and TOML text to the tree that the importers read, with places.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "base/diagnostic.h"
#include "planner/config/source.h"
#include "planner/config/yaml_tree.h"

namespace nqd::planner {

// An object; texts are `quoted`, numbers and booleans are not. Findings: what check_text refuses
// except tabs, syntax (NQD2302), duplicate keys (NQD1007), nesting deeper than 32 (NQD1024),
// another value than an object (NQD1004). Nothing is returned when there are any. Never throws for
// bad input.
std::optional<YamlNode> parse_json(const Source& source, std::vector<Diagnostic>& diagnostics);

// The same of a TOML document; syntax, duplicate keys included, is NQD2303.
std::optional<YamlNode> parse_toml(const Source& source, std::vector<Diagnostic>& diagnostics);

// check_text of a text in which tabs may indent: too large (NQD1024) or not UTF-8 (NQD1026).
std::optional<Diagnostic> check_foreign_text(const Source& source);

inline constexpr std::size_t kMaxForeignDepth = 32;

// Room for one more warning of a kind that a text can repeat without end (each holds a copy of its
// line). The first that has none becomes a note (NQD1031).
bool has_room(const Source& source, std::vector<Diagnostic>& diagnostics);

}  // namespace nqd::planner

// YAML text to a plain tree with places; strict where YAML is lax. Its .cpp is the only file of the
// tree that includes yaml-cpp.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "planner/config/source.h"

namespace nqd::planner {

struct YamlEntry;

struct YamlNode {
  enum class Kind { kNull, kScalar, kSequence, kMap };
  Kind kind = Kind::kNull;
  Place place;
  std::string text;                // of a scalar, unquoted
  bool quoted = false;             // "8" rather than 8
  std::vector<YamlNode> items;     // of a sequence
  std::vector<YamlEntry> entries;  // of a map, in file order; the first of duplicate keys
};

struct YamlEntry {
  std::string key;
  Place key_place;
  YamlNode value;
};

// Parses one document. Findings go to `diagnostics`: text that check_text refuses, YAML syntax
// (NQD1002), duplicate keys (NQD1007), anchors, aliases, merge keys and tags (NQD1019), nesting
// deeper than 16 (NQD1024), a second document (NQD1025). Nothing is returned when the tree cannot
// be relied on; a text without content gives a kNull node. Never throws for bad input.
std::optional<YamlNode> parse_yaml(const Source& source, std::vector<Diagnostic>& diagnostics);

}  // namespace nqd::planner

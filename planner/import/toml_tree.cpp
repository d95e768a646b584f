// The library is compiled here alone, and without its exceptions: a parse gives a result.
#define TOML_EXCEPTIONS 0
// Some of its assertions fail for bad input (`a.* = 1`), which the parser then refuses anyway.
#define TOML_ASSERT(condition) static_cast<void>(0)
#define TOML_ENABLE_FORMATTERS 0
#define TOML_MAX_NESTED_VALUES 32
#include <toml++/toml.h>

#include <algorithm>
#include <cstddef>
#include <sstream>
#include <string>
#include <utility>

#include "planner/config/field.h"
#include "planner/import/foreign_tree.h"

namespace nqd::planner {
namespace {

constexpr int kMaxDots = 32;
constexpr int kMaxDotted = 20000;
constexpr int kMaxSections = 2000;

Place place_of(const toml::source_region& region) {
  return {static_cast<int>(region.begin.line), static_cast<int>(region.begin.column)};
}

// What the library does not bound: dotted keys, whose tables it frees recursively, so that `a.a.a…`
// would exhaust the stack; and sections, of which each costs a look at all that came before.
// Counted by lines, texts and arrays included: no job config comes near.
std::optional<Diagnostic> check_extent(const Source& source) {
  int sections = 0;
  int dotted = 0;
  for (int number = 1; number <= source.line_count(); ++number) {
    const std::string_view line = source.line(number);
    const std::size_t first = line.find_first_not_of(" \t");
    if (first == std::string_view::npos || line[first] == '#') continue;
    if (line[first] == '[' && ++sections > kMaxSections) {
      return source.error("NQD1024", {number, 1}, "", "more sections than any job config has");
    }
    int dots = 0;
    for (std::size_t i = first; i < line.size(); ++i) {
      if (line[i] == ',' || line[i] == '=' || line[i] == '{') dots = 0;
      if (line[i] != '.') continue;
      if (++dots > kMaxDots || (dots == 1 && ++dotted > kMaxDotted)) {
        return source.error("NQD1024", {number, static_cast<int>(i) + 1}, "",
                            "more dots in keys than any job config has");
      }
    }
  }
  return std::nullopt;
}

template <typename T>
std::string iso_text(const T& value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

YamlNode tree_of(const toml::node& node);

YamlNode scalar(const toml::node& node, std::string text, bool quoted = false) {
  return {YamlNode::Kind::kScalar, place_of(node.source()), std::move(text), quoted, {}, {}};
}

YamlNode map_of(const toml::table& table) {
  YamlNode map{YamlNode::Kind::kMap, place_of(table.source()), {}, false, {}, {}};
  for (const auto& [key, value] : table) {
    map.entries.push_back({std::string(key.str()), place_of(key.source()), tree_of(value)});
  }
  // The library sorts by key; findings come in the order of the text.
  std::stable_sort(map.entries.begin(), map.entries.end(),
                   [](const YamlEntry& a, const YamlEntry& b) {
                     return std::pair(a.key_place.line, a.key_place.column) <
                            std::pair(b.key_place.line, b.key_place.column);
                   });
  return map;
}

YamlNode tree_of(const toml::node& node) {
  if (const auto* table = node.as_table()) return map_of(*table);
  if (const auto* array = node.as_array()) {
    YamlNode list{YamlNode::Kind::kSequence, place_of(node.source()), {}, false, {}, {}};
    for (const toml::node& item : *array) list.items.push_back(tree_of(item));
    return list;
  }
  if (const auto* text = node.as_string()) return scalar(node, text->get(), true);
  if (const auto* integer = node.as_integer()) return scalar(node, std::to_string(integer->get()));
  if (const auto* number = node.as_floating_point()) {
    return scalar(node, number_text(number->get()));
  }
  if (const auto* boolean = node.as_boolean()) {
    return scalar(node, boolean->get() ? "true" : "false");
  }
  if (const auto* date = node.as_date()) return scalar(node, iso_text(date->get()));
  if (const auto* time = node.as_time()) return scalar(node, iso_text(time->get()));
  if (const auto* both = node.as_date_time()) return scalar(node, iso_text(both->get()));
  return {};
}

}  // namespace

std::optional<YamlNode> parse_toml(const Source& source, std::vector<Diagnostic>& diagnostics) {
  if (std::optional<Diagnostic> problem = check_foreign_text(source)) {
    diagnostics.push_back(std::move(*problem));
    return std::nullopt;
  }
  if (std::optional<Diagnostic> problem = check_extent(source)) {
    diagnostics.push_back(std::move(*problem));
    return std::nullopt;
  }
  // toml++ 3.3 runs into undefined behaviour at most characters beyond ASCII outside of texts
  // (is_non_ascii_horizontal_whitespace), and no key that is read here has any. It counts columns
  // in characters, nqd in bytes: so both agree.
  std::string ascii = source.text();
  std::replace_if(
      ascii.begin(), ascii.end(), [](char byte) { return (byte & 0x80) != 0; }, '?');
  const toml::parse_result parsed = toml::parse(ascii, source.name());
  if (!parsed) {
    const toml::parse_error& error = parsed.error();
    Diagnostic diagnostic =
        source.error("NQD2303", place_of(error.source()), "",
                     "the text is not TOML: " + printable(error.description(), 200));
    diagnostic.hint = "texts stand in quotes; a [section] is opened once, and a key given once";
    diagnostics.push_back(std::move(diagnostic));
    return std::nullopt;
  }
  return map_of(parsed.table());
}

}  // namespace nqd::planner

#include "planner/config/assignment.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "planner/config/read_value.h"
#include "planner/config/suggest.h"

namespace nqd::planner {
namespace {

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const std::size_t space = std::min(text.find(' '), text.size());
    words.push_back(text.substr(0, space));
    text.remove_prefix(std::min(space + 1, text.size()));
  }
  return words;
}

// Every key of the table: fields and nested sections.
std::vector<std::string_view> all_paths() {
  std::vector<std::string_view> paths;
  for (const Section& section : sections()) paths.push_back(section.path);
  for (const Field& field : fields()) paths.push_back(field.path);
  return paths;
}

std::vector<std::string_view> keys_under(std::string_view prefix) {
  std::vector<std::string_view> keys;
  for (const std::string_view path : all_paths()) {
    if (parent_of(path) == prefix) keys.push_back(leaf_of(path));
  }
  return keys;
}

// The field that other tools call `key`, one in `prefix` rather than one elsewhere.
std::string path_also_called(std::string_view key, std::string_view prefix) {
  std::string found;
  for (const Field& field : fields()) {
    const std::vector<std::string_view> names = words_of(field.also);
    if (std::find(names.begin(), names.end(), key) == names.end()) continue;
    if (parent_of(field.path) == prefix) return std::string(field.path);
    if (found.empty()) found = field.path;
  }
  return found;
}

std::string exact_elsewhere(std::string_view key) {
  for (const std::string_view path : all_paths()) {
    if (leaf_of(path) == key) return std::string(path);
  }
  return {};
}

std::string near_elsewhere(std::string_view key) {
  std::vector<std::string_view> leaves;
  for (const std::string_view path : all_paths()) leaves.push_back(leaf_of(path));
  const std::optional<std::string> leaf = closest(key, leaves);
  return leaf ? exact_elsewhere(*leaf) : std::string();
}

std::string join_path(std::string_view prefix, std::string_view key) {
  return prefix.empty() ? std::string(key) : std::string(prefix) + "." + std::string(key);
}

bool within(std::string_view path, std::string_view section) {
  return path == section || (path.starts_with(section) && path[section.size()] == '.');
}

}  // namespace

void Findings::add(Diagnostic diagnostic, std::string_view path) {
  diagnostics.push_back(std::move(diagnostic));
  if (!path.empty()) unreliable.emplace_back(path);
}

bool Findings::reliable(std::string_view path) const {
  return std::none_of(unreliable.begin(), unreliable.end(),
                      [&](const std::string& bad) { return within(path, bad); });
}

std::string meant_path(std::string_view key, std::string_view prefix) {
  if (const auto sibling = closest(key, keys_under(prefix))) return join_path(prefix, *sibling);
  for (std::string path : {path_also_called(key, prefix), exact_elsewhere(key)}) {
    if (!path.empty()) return path;
  }
  return near_elsewhere(key);
}

void AssignmentReader::read(const YamlNode& map, const std::string& prefix) {
  for (const YamlEntry& entry : map.entries) {
    const std::string path = join_path(prefix, entry.key);
    if (const Field* field = find_field(path)) {
      assignments_.push_back(
          {field, entry.key_place, entry.value, &source_, source_.label(entry.key_place)});
    } else if (find_section(path) != nullptr) {
      read_section(entry, path);
    } else {
      report_unknown(entry, prefix);
    }
  }
}

void AssignmentReader::read_section(const YamlEntry& entry, const std::string& path) {
  sections_.emplace_back(path, entry.key_place);
  // A section whose keys are all commented out is an empty one.
  if (entry.value.kind == YamlNode::Kind::kNull) return;
  if (entry.value.kind == YamlNode::Kind::kMap) {
    read(entry.value, path);
    return;
  }
  if (const Field* field = shorthand_of(path);
      field != nullptr && entry.value.kind == YamlNode::Kind::kScalar) {
    assignments_.push_back(
        {field, entry.key_place, entry.value, &source_, source_.label(entry.key_place)});
    return;
  }
  Diagnostic diagnostic = source_.error("NQD1004", entry.value.place, path,
                                        path + " is a section: its value is a mapping of keys");
  diagnostic.expected = "a mapping";
  diagnostic.got = describe(entry.value);
  if (entry.value.kind == YamlNode::Kind::kScalar && find_field(path + ".preset") != nullptr) {
    diagnostic.hint = "write `" + path + ": {preset: " + printable(entry.value.text) + "}`";
  }
  findings_.add(std::move(diagnostic), path);
}

void AssignmentReader::report_unknown(const YamlEntry& entry, const std::string& prefix) {
  const std::string shown = printable(entry.key);
  // Each costs a comparison with every key; findings beyond so many are not shown.
  constexpr std::size_t kMaxSuggestions = 50;
  const bool looked_up = findings_.diagnostics.size() < kMaxSuggestions;
  const std::string meant = looked_up ? meant_path(entry.key, prefix) : std::string();
  const bool sibling = !meant.empty() && parent_of(meant) == prefix;
  const std::string path = join_path(prefix, shown);
  Diagnostic diagnostic;
  if (prefix.empty()) {
    diagnostic = source_.error("NQD1005", entry.key_place, path,
                               "there is no section \"" + shown + "\" in a config");
  } else if (meant.empty() || sibling) {
    diagnostic = source_.error("NQD1006", entry.key_place, path,
                               "there is no key \"" + shown + "\" in " + prefix);
  } else {
    diagnostic = source_.error("NQD1027", entry.key_place, path,
                               "there is no key \"" + shown + "\" in " + prefix);
  }
  if (sibling) {
    diagnostic.hint = "did you mean " + std::string(leaf_of(meant)) + "?";
  } else if (!meant.empty() && parent_of(meant).empty()) {
    diagnostic.hint = meant + " is a section of its own, at the left margin";
  } else if (!meant.empty()) {
    diagnostic.hint =
        std::string(leaf_of(meant)) + " belongs under " + std::string(parent_of(meant)) + ":";
  } else if (looked_up) {
    diagnostic.hint = "known here: " + joined(keys_under(prefix));
  }
  findings_.add(std::move(diagnostic), meant);
}

}  // namespace nqd::planner

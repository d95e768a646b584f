#include "planner/import/foreign_table.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "planner/config/read_value.h"

namespace nqd::planner {
namespace {

constexpr std::size_t kEnoughBytes = 80;

void append(const YamlNode& node, std::string& text) {
  if (text.size() > kEnoughBytes) return;
  switch (node.kind) {
    case YamlNode::Kind::kNull:
      text += "null";
      return;
    case YamlNode::Kind::kScalar:
      text += node.text;
      return;
    case YamlNode::Kind::kSequence: {
      std::string_view separator;
      text += "[";
      for (const YamlNode& item : node.items) {
        text += separator;
        append(item, text);
        separator = ", ";
      }
      text += "]";
      return;
    }
    case YamlNode::Kind::kMap: {
      std::string_view separator;
      text += "{";
      for (const YamlEntry& entry : node.entries) {
        text += std::string(separator) + entry.key + ": ";
        append(entry.value, text);
        separator = ", ";
      }
      text += "}";
      return;
    }
  }
}

bool matches(std::string_view pattern, std::string_view key) {
  if (!pattern.ends_with('*')) return pattern == key;
  return key.starts_with(pattern.substr(0, pattern.size() - 1));
}

// An argument of a command line without a value.
bool is_bare(const YamlEntry& entry) {
  return entry.key.starts_with('-') && entry.value.kind == YamlNode::Kind::kNull;
}

}  // namespace

std::string_view reason_of(std::span<const Reason> reasons, std::string_view key,
                           std::string_view otherwise) {
  const auto found = std::find_if(reasons.begin(), reasons.end(),
                                  [&](const Reason& reason) { return matches(reason.key, key); });
  return found == reasons.end() ? otherwise : found->text;
}

std::string written(const YamlNode& node) {
  std::string text;
  append(node, text);
  return one_line(text);
}

std::string one_line(std::string_view text, std::size_t limit) {
  const bool cut = text.size() > limit;
  std::size_t end = cut ? limit : text.size();
  // Bytes 10xxxxxx continue a character.
  while (cut && end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return printable(text.substr(0, end), 2 * limit) + (cut ? "..." : "");
}

ForeignTable::ForeignTable(const Source& source, const YamlNode& map, std::string prefix,
                           ImportDraft& draft)
    : source_(&source),
      map_(&map),
      prefix_(std::move(prefix)),
      draft_(&draft),
      taken_(map.entries.size(), false) {}

const YamlEntry* ForeignTable::entry(std::string_view key) const {
  const auto found = std::find_if(map_->entries.begin(), map_->entries.end(),
                                  [&](const YamlEntry& candidate) { return candidate.key == key; });
  return found == map_->entries.end() ? nullptr : &*found;
}

const YamlEntry* ForeignTable::take(std::string_view key) {
  const YamlEntry* found = entry(key);
  if (found != nullptr) taken_[static_cast<std::size_t>(found - map_->entries.data())] = true;
  return found;
}

std::optional<Value> ForeignTable::value(std::string_view key, Field field) {
  const YamlEntry* found = take(key);
  if (found == nullptr) return std::nullopt;
  const std::string shown = prefix_ + std::string(key);
  field.path = shown;
  Diagnostic problem;
  std::optional<Value> value = read_value(field, found->value, *source_, problem);
  if (!value) {
    // Its hints are edits of a YAML file.
    const bool variable = found->value.text.find('$') != std::string::npos;
    problem.hint = variable ? "the script does not set it: give it with --define NAME=VALUE" : "";
    draft_->report(std::move(problem));
  }
  return value;
}

std::optional<std::int64_t> ForeignTable::integer(std::string_view key, Range range) {
  const std::optional<Value> found =
      value(key, Field{.path = key, .kind = Kind::kInteger, .range = range});
  if (!found) return std::nullopt;
  return std::get<std::int64_t>(*found);
}

std::optional<double> ForeignTable::number(std::string_view key, Range range) {
  const std::optional<Value> found =
      value(key, Field{.path = key, .kind = Kind::kNumber, .range = range});
  if (!found) return std::nullopt;
  return std::get<double>(*found);
}

std::optional<std::string> ForeignTable::text(std::string_view key) {
  const std::optional<Value> found = value(key, Field{.path = key, .kind = Kind::kText});
  if (!found) return std::nullopt;
  return std::get<std::string>(*found);
}

bool ForeignTable::boolean(std::string_view key, bool fallback) {
  const std::optional<Value> found = value(key, Field{.path = key, .kind = Kind::kBoolean});
  return found ? std::get<bool>(*found) : fallback;
}

bool ForeignTable::is_text(std::string_view key, std::string_view text) const {
  const YamlEntry* found = entry(key);
  return found != nullptr && found->value.kind == YamlNode::Kind::kScalar &&
         found->value.text == text;
}

bool ForeignTable::is_null(std::string_view key) const {
  const YamlEntry* found = entry(key);
  return found == nullptr || found->value.kind == YamlNode::Kind::kNull;
}

bool ForeignTable::read(std::string_view key, std::string_view path) {
  std::optional<Value> found = value(key, *find_field(path));
  if (!found) return false;
  draft_->set(path, std::move(*found), origin(key));
  return true;
}

void ForeignTable::set(std::string_view key, std::string_view path, Value value) {
  take(key);
  draft_->set(path, std::move(value), origin(key));
}

void ForeignTable::derive(std::string_view key, std::string_view path, Value value,
                          const std::string& rule) {
  take(key);
  Origin from = origin(key);
  from.rule = rule;
  draft_->set(path, std::move(value), std::move(from));
}

std::optional<ForeignTable> ForeignTable::section(std::string_view key) {
  const YamlEntry* found = take(key);
  if (found == nullptr || found->value.kind == YamlNode::Kind::kNull) return std::nullopt;
  if (found->value.kind != YamlNode::Kind::kMap) {
    Diagnostic diagnostic = source_->error("NQD1008", found->value.place, prefix_ + found->key,
                                           prefix_ + found->key + " has a value of the wrong type");
    diagnostic.expected = "a mapping";
    diagnostic.got = describe(found->value);
    draft_->report(std::move(diagnostic));
    return std::nullopt;
  }
  return ForeignTable(*source_, found->value, prefix_ + std::string(key) + ".", *draft_);
}

void ForeignTable::drop(std::string_view key, std::string reason) {
  const YamlEntry* found = take(key);
  if (found != nullptr) drop(*found, std::move(reason));
}

void ForeignTable::drop(const YamlEntry& found, std::string reason) {
  draft_->drop({prefix_ + found.key,
                is_bare(found) ? std::string() : written(found.value),
                {source_->name(), found.key_place.line, found.key_place.column},
                std::move(reason)});
}

void ForeignTable::drop_rest(std::span<const Reason> reasons, std::string_view otherwise) {
  for (std::size_t i = 0; i < taken_.size(); ++i) {
    if (taken_[i]) continue;
    taken_[i] = true;
    const YamlEntry& rest = map_->entries[i];
    drop(rest, std::string(reason_of(reasons, rest.key, otherwise)));
  }
}

Diagnostic ForeignTable::at(std::string_view key, std::string code, std::string message) const {
  const YamlEntry* found = entry(key);
  return source_->error(std::move(code), found == nullptr ? Place{} : found->key_place,
                        prefix_ + std::string(key), std::move(message));
}

Origin ForeignTable::origin(std::string_view key) const {
  const YamlEntry* found = entry(key);
  std::string shown = prefix_ + std::string(key);
  if (found == nullptr) return {shown, nullptr, {}};
  if (!is_bare(*found)) shown += (key.starts_with('-') ? " " : ": ") + written(found->value);
  return {shown, source_, found->key_place};
}

}  // namespace nqd::planner

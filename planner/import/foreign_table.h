// A mapping of a foreign config that knows which of its keys have been looked at, so that none is
// passed over in silence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planner/config/field.h"
#include "planner/config/yaml_tree.h"
#include "planner/import/import_draft.h"

namespace nqd::planner {

// Why keys have no place in nqd's config; `key` ends in `*` for all that start so.
struct Reason {
  std::string_view key;
  std::string_view text;
};

// The text of the first that fits `key`, else `otherwise`.
std::string_view reason_of(std::span<const Reason> reasons, std::string_view key,
                           std::string_view otherwise);

class ForeignTable {
 public:
  // `prefix` comes before the keys in messages: "zero_optimization.". All three outlive the table.
  ForeignTable(const Source& source, const YamlNode& map, std::string prefix, ImportDraft& draft);

  bool has(std::string_view key) const { return entry(key) != nullptr; }
  // Null when the key is absent; the key counts as looked at.
  const YamlEntry* take(std::string_view key);

  // Nothing when the key is absent, or of the wrong type or out of range (reported).
  std::optional<std::int64_t> integer(std::string_view key, Range range = {0, 1 << 30});
  std::optional<double> number(std::string_view key, Range range = {0, 1e18});
  std::optional<std::string> text(std::string_view key);
  // Absent: `fallback`.
  bool boolean(std::string_view key, bool fallback = false);
  bool is_text(std::string_view key, std::string_view text) const;
  bool is_null(std::string_view key) const;

  // Reads a key to a field of nqd's config by the field's own rules.
  bool read(std::string_view key, std::string_view path);
  // Sets a field to a value that the key stands for, with the key as its origin.
  void set(std::string_view key, std::string_view path, Value value);
  // The same for a value that takes a rule: "--vocab-size 50257, line 3: RULE".
  void derive(std::string_view key, std::string_view path, Value value, const std::string& rule);

  // A section of the mapping; empty when absent or not a mapping (reported).
  std::optional<ForeignTable> section(std::string_view key);

  // Lists a key that is present as unrepresented.
  void drop(std::string_view key, std::string reason);
  // Lists every key that nobody has looked at, with the reason that fits first, else `otherwise`.
  void drop_rest(std::span<const Reason> reasons, std::string_view otherwise);

  // A diagnostic at the key.
  Diagnostic at(std::string_view key, std::string code, std::string message) const;
  Origin origin(std::string_view key) const;
  const Source& source() const { return *source_; }
  ImportDraft& draft() { return *draft_; }

 private:
  const YamlEntry* entry(std::string_view key) const;
  std::optional<Value> value(std::string_view key, Field field);
  void drop(const YamlEntry& entry, std::string reason);

  const Source* source_;
  const YamlNode* map_;
  std::string prefix_;
  ImportDraft* draft_;
  std::vector<bool> taken_;
};

// The value as it was written, on one line: lists and mappings in brackets, cut to 80 bytes.
std::string written(const YamlNode& node);
// `printable`, never cut inside a character.
std::string one_line(std::string_view text, std::size_t limit = 80);

}  // namespace nqd::planner

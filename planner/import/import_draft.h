// What an importer has understood so far.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "planner/config/field.h"
#include "planner/config/source.h"
#include "planner/import/import.h"

namespace nqd::planner {

// Where a value stands in the foreign text; no source: a default of the foreign tool, or derived.
struct Origin {
  std::string comment;
  const Source* source = nullptr;  // outlives the draft
  Place place;
  std::string rule = {};  // how the value follows from what stands there; empty = as it is
};

class ImportDraft {
 public:
  // The last call for a path wins. A value outside the field's range is reported (NQD1009) and left
  // out.
  void set(std::string_view path, Value value, Origin origin);
  bool has(std::string_view path) const { return values_.find(path) != values_.end(); }
  // The value of an integer path, or `fallback`.
  std::int64_t integer(std::string_view path, std::int64_t fallback = 0) const;
  bool is(std::string_view path, const Value& value) const;
  // Null when the path has no value.
  const Origin* origin(std::string_view path) const;

  void drop(UnrepresentedKey key) { unrepresented_.push_back(std::move(key)); }
  void report(Diagnostic diagnostic) { diagnostics_.push_back(std::move(diagnostic)); }
  void warn(Diagnostic diagnostic);

  // In the order of the config reference, comments left out.
  std::vector<ImportedValue> values() const;
  std::vector<UnrepresentedKey>& unrepresented() { return unrepresented_; }
  std::vector<Diagnostic>& diagnostics() { return diagnostics_; }

 private:
  struct Entry {
    Value value;
    Origin origin;
  };
  std::map<std::string, Entry, std::less<>> values_;
  std::vector<UnrepresentedKey> unrepresented_;
  std::vector<Diagnostic> diagnostics_;
};

}  // namespace nqd::planner

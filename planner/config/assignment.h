// Keys of a YAML tree matched against the field table, before their values are read.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/diagnostic.h"
#include "planner/config/field.h"
#include "planner/config/source.h"
#include "planner/config/yaml_tree.h"

namespace nqd::planner {

// One key of one layer (a preset, the file, a --set flag).
struct Assignment {
  const Field* field = nullptr;
  Place key_place;
  YamlNode value;
  const Source* source = nullptr;
  std::string origin;  // as ResolvedValue::origin
};

// What went wrong, and which paths therefore have no value to rely on: nothing that involves them
// is judged again, so that one mistake gives one message.
struct Findings {
  std::vector<Diagnostic> diagnostics;
  std::vector<std::string> unreliable;  // paths; a section stands for all its keys

  void add(Diagnostic diagnostic, std::string_view path);
  bool reliable(std::string_view path) const;
};

// Walks `map`, whose keys lie under the section `prefix` ("" for a whole config file).
class AssignmentReader {
 public:
  AssignmentReader(const Source& source, Findings& findings)
      : source_(source), findings_(findings) {}

  void read(const YamlNode& map, const std::string& prefix);

  std::vector<Assignment>& assignments() { return assignments_; }
  // Sections that the text holds, with the places of their keys.
  const std::vector<std::pair<std::string, Place>>& sections() const { return sections_; }

 private:
  void read_section(const YamlEntry& entry, const std::string& path);
  void report_unknown(const YamlEntry& entry, const std::string& prefix);

  const Source& source_;
  Findings& findings_;
  std::vector<Assignment> assignments_;
  std::vector<std::pair<std::string, Place>> sections_;
};

// What a person may have meant by an unknown `key` of section `prefix`: the dotted path of a field
// or section, siblings first, then other tools' names, then the same or a near key elsewhere.
// Empty when nothing is near.
std::string meant_path(std::string_view key, std::string_view prefix);

}  // namespace nqd::planner

// The values that a calibration file is made of, read strictly: every mismatch becomes a finding
// NQD1011 with its place, and leaves the target as it was.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "planner/config/source.h"
#include "planner/config/yaml_tree.h"

namespace nqd::planner {

class CalibrationValues {
 public:
  CalibrationValues(const Source& source, std::vector<Diagnostic>& diagnostics)
      : source_(source), diagnostics_(diagnostics) {}

 protected:
  struct Key {
    std::string_view name;
    std::function<void(const YamlNode&)> read;
  };

  void report(Place place, std::string path, std::string message, std::string hint = {});
  void wrong_type(const YamlNode& node, const std::string& path, const std::string& expected);
  // Calls the reader of each key that is there. Unknown keys, and `required` ones that are missing,
  // are findings.
  void read_map(const YamlNode& node, const std::string& path, const std::vector<Key>& keys,
                const std::vector<std::string_view>& required);
  // At least 0.
  void number(const YamlNode& node, const std::string& path, double& target);
  // At least 1.
  void integer(const YamlNode& node, const std::string& path, std::int64_t& target);
  void flag(const YamlNode& node, const std::string& path, bool& target);
  void text(const YamlNode& node, const std::string& path, std::string& target);

  // Calls read(item, path) for each; a list may be empty unless `what` says otherwise.
  template <typename Read>
  void read_list(const YamlNode& node, const std::string& path, const std::string& what,
                 bool may_be_empty, const Read& read) {
    if (node.kind != YamlNode::Kind::kSequence || (node.items.empty() && !may_be_empty)) {
      wrong_type(node, path, what);
      return;
    }
    for (std::size_t i = 0; i < node.items.size(); ++i) {
      read(node.items[i], path + "[" + std::to_string(i) + "]");
    }
  }

  const Source& source_;
  std::vector<Diagnostic>& diagnostics_;
};

}  // namespace nqd::planner

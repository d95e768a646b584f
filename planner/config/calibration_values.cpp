#include "planner/config/calibration_values.h"

#include <cmath>
#include <optional>
#include <utility>

#include "planner/config/read_value.h"
#include "planner/config/suggest.h"

namespace nqd::planner {

void CalibrationValues::report(Place place, std::string path, std::string message,
                               std::string hint) {
  Diagnostic diagnostic = source_.error("NQD1011", place, std::move(path), std::move(message));
  diagnostic.hint = std::move(hint);
  diagnostics_.push_back(std::move(diagnostic));
}

void CalibrationValues::wrong_type(const YamlNode& node, const std::string& path,
                                   const std::string& expected) {
  report(node.place, path, path + " must be " + expected + ", not " + describe(node),
         "a calibration is written by `nqd calibrate`; do not edit it by hand");
}

void CalibrationValues::read_map(const YamlNode& node, const std::string& path,
                                 const std::vector<Key>& keys,
                                 const std::vector<std::string_view>& required) {
  if (node.kind != YamlNode::Kind::kMap) {
    wrong_type(node, path.empty() ? "a calibration file" : path, "a mapping");
    return;
  }
  std::vector<std::string_view> names;
  names.reserve(keys.size());
  for (const Key& key : keys) names.push_back(key.name);
  std::vector<std::string_view> absent = required;
  for (const YamlEntry& entry : node.entries) {
    std::erase(absent, entry.key);
    bool known = false;
    for (const Key& key : keys) {
      if (key.name != entry.key) continue;
      known = true;
      key.read(entry.value);
    }
    if (known) continue;
    const std::optional<std::string> meant = closest(entry.key, names);
    if (meant) std::erase(absent, *meant);
    report(entry.key_place, path,
           "there is no key \"" + printable(entry.key) + "\" in a calibration" +
               (path.empty() ? "" : "'s " + path),
           meant ? "did you mean " + *meant + "?" : "known here: " + joined(names));
  }
  if (!absent.empty()) {
    report(node.place, path,
           (path.empty() ? "the calibration" : path) + " lacks " + joined(absent));
  }
}

void CalibrationValues::number(const YamlNode& node, const std::string& path, double& target) {
  const bool plain = node.kind == YamlNode::Kind::kScalar && !node.quoted;
  const std::optional<double> value = plain ? parse_number(node.text) : std::nullopt;
  if (!value || !std::isfinite(*value)) {
    wrong_type(node, path, "a finite number");
  } else if (*value < 0) {
    report(node.place, path, path + " is negative: " + node.text);
  } else {
    target = *value;
  }
}

void CalibrationValues::integer(const YamlNode& node, const std::string& path,
                                std::int64_t& target) {
  const bool plain = node.kind == YamlNode::Kind::kScalar && !node.quoted;
  const std::optional<std::int64_t> value = plain ? parse_integer(node.text) : std::nullopt;
  if (!value) {
    wrong_type(node, path, "an integer");
  } else if (*value < 1) {
    report(node.place, path, path + " must be at least 1, not " + node.text);
  } else {
    target = *value;
  }
}

void CalibrationValues::flag(const YamlNode& node, const std::string& path, bool& target) {
  const bool plain = node.kind == YamlNode::Kind::kScalar && !node.quoted;
  if (plain && (node.text == "true" || node.text == "false")) {
    target = node.text == "true";
  } else {
    wrong_type(node, path, "true or false");
  }
}

void CalibrationValues::text(const YamlNode& node, const std::string& path, std::string& target) {
  if (node.kind != YamlNode::Kind::kScalar) {
    wrong_type(node, path, "text");
  } else {
    target = node.text;
  }
}

}  // namespace nqd::planner

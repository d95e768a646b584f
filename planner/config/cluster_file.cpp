#include "planner/config/cluster_file.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "planner/calibration/calibration.h"
#include "planner/config/config.h"
#include "planner/config/presets.h"
#include "planner/config/suggest.h"
#include "planner/config/yaml_tree.h"

namespace nqd::planner {
namespace {

// What a section needs to be a whole config: any model will do, for none of it is used.
constexpr std::string_view kModel = "\nmodel: {preset: gpt2-124m}\n";

bool has_key(const YamlNode& root, std::string_view key) {
  return std::any_of(root.entries.begin(), root.entries.end(),
                     [&](const YamlEntry& entry) { return entry.key == key; });
}

bool is_config(const YamlNode& root) {
  constexpr std::array<std::string_view, 6> kSections = {"model", "cluster", "parallel",
                                                         "train", "stack",   "data"};
  return std::any_of(kSections.begin(), kSections.end(),
                     [&](std::string_view section) { return has_key(root, section); });
}

// Every line moved into the section `cluster`.
std::string as_section(std::string_view text) {
  std::string section = "cluster:\n  ";
  for (const char c : text) {
    section += c;
    if (c == '\n') section += "  ";
  }
  return section;
}

[[noreturn]] void throw_finding(const std::string& name, const Diagnostic& finding, int line_shift,
                                int column_shift) {
  std::string place = name;
  if (finding.where.line > line_shift) {
    place += ":" + std::to_string(finding.where.line - line_shift) + ":" +
             std::to_string(std::max(1, finding.where.column - column_shift));
  }
  std::string hint = finding.hint;
  if (hint.empty() && !finding.expected.empty()) hint = "expected " + finding.expected;
  throw Error(ExitCode::kUsage, finding.code, place + ": " + finding.message, hint);
}

ClusterSpec load_section(const std::string& text, const std::string& name, bool alone) {
  const LoadedConfig loaded = load_config_text(text, name);
  for (const Diagnostic& finding : loaded.diagnostics) {
    // NQD12 and later judge the mesh that the stand-in for the rest of the config would run on.
    if (finding.severity != Severity::kError || !finding.code.starts_with("NQD10")) continue;
    throw_finding(name, finding, alone ? 1 : 0, alone ? 2 : 0);
  }
  return loaded.config.cluster;
}

ClusterSpec read_preset(const std::string& name) {
  std::vector<std::string_view> names;
  for (const Preset& preset : cluster_presets()) names.push_back(preset.name);
  if (std::find(names.begin(), names.end(), name) != names.end()) {
    return load_section("cluster: {preset: " + name + "}" + std::string(kModel), name, false);
  }
  const std::optional<std::string> meant = closest(name, names);
  throw Error(ExitCode::kUsage, "NQD1012",
              "there is no file and no cluster preset \"" + printable(name) + "\"",
              meant ? "did you mean " + *meant + "?" : "presets: " + joined(names));
}

}  // namespace

ClusterSpec read_cluster(const std::string& name) {
  std::error_code ignored;
  if (!std::filesystem::exists(name, ignored)) return read_preset(name);
  const std::string text = read_file(name);
  std::vector<Diagnostic> findings;
  const std::optional<YamlNode> root = parse_yaml(Source(name, text), findings);
  if (!root && !findings.empty()) throw_finding(name, findings.front(), 0, 0);
  if (root && has_key(*root, "curves")) {
    ClusterSpec cluster;
    Calibration calibration = read_calibration(name);
    cluster.curves = std::move(calibration.curves);
    cluster.calibration_source = name;
    return cluster;
  }
  if (!root || !is_config(*root)) {
    return load_section(as_section(text) + std::string(kModel), name, true);
  }
  return load_section(has_key(*root, "model") ? text : text + std::string(kModel), name, false);
}

}  // namespace nqd::planner

// YAML config files to planner records, with source positions. The only user of yaml-cpp.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "planner/spec.h"

namespace nqd::planner {

struct LoadOptions {
  std::vector<std::string> overrides;  // "train.steps=50", in order; the last wins
  std::string cluster_file;            // --cluster: a calibration that overrides `cluster`
};

struct LoadedConfig {
  Config config;
  std::vector<Diagnostic> diagnostics;  // sorted by place; NQD10xx here, check_mesh's located too
  std::vector<ResolvedValue> resolved;  // every value of the schema with its origin
  std::string resolved_yaml;            // canonical text; its SHA-256 identifies the config
  // Dotted path -> place in the file of the key's value, for diagnostics of later layers.
  std::map<std::string, SourceLocation> places;
  std::string text;  // of the file, for `locate`
  bool ok() const { return !has_errors(diagnostics); }
};

// Reads, merges presets, applies overrides, checks types and ranges, then check_mesh. All findings
// in one call; an unreadable file is a diagnostic too (NQD1001). Never throws for bad input.
LoadedConfig load_config(const std::string& path, const LoadOptions& options = {});
// The same from text; `name` stands for the file in messages.
LoadedConfig load_config_text(const std::string& text, const std::string& name,
                              const LoadOptions& options = {});

// Fills where/source_line/caret of a diagnostic that has only a path, from a loaded config and its
// text. A related place with line 0 whose `file` is a dotted path is located likewise; a value that
// is not in the file is shown with its origin ("preset gpt2-124m"), a default is dropped.
void locate(Diagnostic& diagnostic, const LoadedConfig& loaded, const std::string& text);

// JSON Schema (draft 7) of a config file for editors, generated from the validator's own table.
std::string config_json_schema();
// Markdown reference of every key, generated from the same table.
std::string config_reference_markdown();

}  // namespace nqd::planner

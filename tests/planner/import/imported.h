// Importing texts and fixtures in tests.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "planner/config/config.h"
#include "planner/import/import.h"

namespace nqd::planner {

inline ImportRequest request(ForeignFormat format, std::string text) {
  ImportRequest request;
  request.format = format;
  request.files.emplace_back("input", std::move(text));
  return request;
}

// A file of the fuzzers' corpus, which holds a seed of every real kind; names differ across
// formats.
inline Source fixture(const std::string& name) {
  const std::filesystem::path corpus = NQD_SOURCE_DIR "/tests/fuzz/corpus";
  for (const char* format : {"megatron", "deepspeed", "hf", "torchtitan"}) {
    const std::filesystem::path path = corpus / format / name;
    if (std::filesystem::exists(path)) return {name, read_file(path.string())};
  }
  FAIL("no corpus has ", name);
  return {name, ""};
}

inline ImportRequest fixture_request(ForeignFormat format, const std::string& name) {
  ImportRequest request;
  request.format = format;
  request.files.push_back(fixture(name));
  return request;
}

inline ImportResult import_text(ForeignFormat format, std::string text) {
  return import_config(request(format, std::move(text)));
}

inline std::string all_findings(const std::vector<Diagnostic>& diagnostics) {
  std::string text;
  for (const Diagnostic& diagnostic : diagnostics) text += format(diagnostic);
  return text;
}

// The config that the imported text loads to; it has to load.
inline Config loaded(const ImportResult& result) {
  const LoadedConfig loaded = load_config_text(result.yaml, "imported.yaml");
  const std::string findings = all_findings(loaded.diagnostics);
  INFO(result.yaml);
  INFO(findings);
  REQUIRE(loaded.ok());
  return loaded.config;
}

inline Config imported(const ImportRequest& request) {
  const ImportResult result = import_config(request);
  const std::string findings = all_findings(result.diagnostics);
  INFO(findings);
  REQUIRE(result.exit_code == ExitCode::kOk);
  return loaded(result);
}

// The first finding of that code; null when there is none.
inline const Diagnostic* finding(const ImportResult& result, const std::string& code) {
  const auto found = std::find_if(result.diagnostics.begin(), result.diagnostics.end(),
                                  [&](const Diagnostic& d) { return d.code == code; });
  return found == result.diagnostics.end() ? nullptr : &*found;
}

inline bool is_listed(const ImportResult& result, const std::string& key) {
  return std::any_of(result.unrepresented.begin(), result.unrepresented.end(),
                     [&](const UnrepresentedKey& listed) { return listed.key == key; });
}

}  // namespace nqd::planner

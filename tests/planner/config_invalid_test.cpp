// configs/invalid: each file fails with the message stored beside it. After a wording changes on
// purpose, store the new one: (echo "exit: N"; nqd mesh-plan FILE 2>&1 >/dev/null) > FILE.expected
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/codes.h"
#include "base/file.h"
#include "planner/config/config.h"
#include "planner/planner.h"

namespace nqd::planner {
namespace {

std::vector<std::string> invalid_configs() {
  std::filesystem::current_path(NQD_SOURCE_DIR);  // messages hold the relative path
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator("configs/invalid")) {
    if (entry.path().extension() == ".yaml") paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

// Of the loader, and of the plan when the config loads.
std::vector<Diagnostic> all_findings(const std::string& path) {
  LoadedConfig loaded = load_config(path);
  if (!loaded.ok()) return loaded.diagnostics;
  std::vector<Diagnostic> found = make_plan(loaded.config).diagnostics;
  for (Diagnostic& diagnostic : found) locate(diagnostic, loaded, loaded.text);
  return found;
}

bool is_error(const Diagnostic& diagnostic) { return diagnostic.severity == Severity::kError; }

TEST_CASE("each invalid config fails as stored beside it") {
  for (const std::string& path : invalid_configs()) {
    INFO(path);
    const std::vector<Diagnostic> found = all_findings(path);
    const bool malformed = std::any_of(found.begin(), found.end(), [](const Diagnostic& d) {
      return is_error(d) && d.code.starts_with("NQD10");
    });
    std::string text = malformed ? "exit: 2\n" : "exit: 1\n";
    for (const Diagnostic& diagnostic : found) text += format(diagnostic);
    const std::filesystem::path stored = std::filesystem::path(path).replace_extension(".expected");
    CHECK(text == read_file(stored));
  }
}

TEST_CASE("the first errors of the invalid configs all have different, explained codes") {
  std::map<std::string, std::string> seen;
  for (const std::string& path : invalid_configs()) {
    const std::vector<Diagnostic> found = all_findings(path);
    const auto first = std::find_if(found.begin(), found.end(), is_error);
    REQUIRE_MESSAGE(first != found.end(), path << " is valid");
    const auto [other, fresh] = seen.emplace(first->code, path);
    CHECK_MESSAGE(fresh, path << " and " << other->second << " both fail with " << first->code);
    CHECK_MESSAGE(find_code(first->code) != nullptr, first->code);
  }
  CHECK(seen.size() >= 20);
}

}  // namespace
}  // namespace nqd::planner

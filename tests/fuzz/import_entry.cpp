#include "tests/fuzz/import_entry.h"

#include <algorithm>
#include <utility>

#include "base/diagnostic.h"
#include "planner/config/config.h"
#include "planner/import/export.h"
#include "tests/fuzz/entries.h"

namespace nqd::fuzz {
namespace {

planner::ImportResult import_text(planner::ForeignFormat from, std::string text) {
  planner::ImportRequest request;
  request.format = from;
  request.files.emplace_back("fuzz", std::move(text));
  return planner::import_config(request);
}

bool is_incomplete(const planner::ImportResult& result) {
  return std::any_of(result.diagnostics.begin(), result.diagnostics.end(),
                     [](const Diagnostic& d) { return d.code == "NQD2315"; });
}

}  // namespace

void import_anything(planner::ForeignFormat from, std::string_view text) {
  const planner::ImportResult result = import_text(from, std::string(text));
  for (const Diagnostic& diagnostic : result.diagnostics) format(diagnostic);
  import_json(result);
  const bool ok = result.exit_code == ExitCode::kOk;
  require(ok != has_errors(result.diagnostics), "exit code and findings disagree");
  require(result.yaml.empty() == (result.exit_code == ExitCode::kUsage), "a config of bad input");
  if (!ok || is_incomplete(result)) return;
  const planner::LoadedConfig loaded = planner::load_config_text(result.yaml, "imported.yaml");
  require(loaded.ok(), "the imported config does not load:\n" + result.yaml);
  const std::pair<planner::ExportFormat, planner::ForeignFormat> formats[] = {
      {planner::ExportFormat::kMegatron, planner::ForeignFormat::kMegatron},
      {planner::ExportFormat::kHuggingFace, planner::ForeignFormat::kHuggingFace},
      {planner::ExportFormat::kDeepSpeed, planner::ForeignFormat::kDeepSpeed}};
  for (const auto& [to, back] : formats) {
    const planner::ExportResult exported = planner::export_config(loaded, to);
    planner::export_json(exported);
    if (exported.text.empty()) continue;
    require(import_text(back, exported.text).exit_code != ExitCode::kUsage,
            "the exported text cannot be read:\n" + exported.text);
  }
}

}  // namespace nqd::fuzz

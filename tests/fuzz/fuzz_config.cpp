#include "base/diagnostic.h"
#include "planner/config/config.h"
#include "planner/planner.h"
#include "tests/fuzz/entries.h"

namespace nqd::fuzz {

// A config that loads is planned, and its canonical form loads to the same.
void config(std::string_view text) {
  const planner::LoadedConfig loaded = planner::load_config_text(std::string(text), "fuzz.yaml");
  for (const Diagnostic& diagnostic : loaded.diagnostics) format(diagnostic);
  if (!loaded.ok()) return;
  const planner::LoadedConfig again =
      planner::load_config_text(loaded.resolved_yaml, "canonical.yaml");
  require(again.ok(), "the canonical form does not load:\n" + loaded.resolved_yaml);
  require(again.resolved_yaml == loaded.resolved_yaml, "the canonical form is not stable");
  for (const Diagnostic& diagnostic : planner::make_plan(loaded.config).diagnostics) {
    format(diagnostic);
  }
}

}  // namespace nqd::fuzz

#include <algorithm>
#include <utility>

#include "planner/config/presets.h"
#include "planner/config/resolution.h"
#include "planner/config/suggest.h"

namespace nqd::planner {
namespace {

// Keys without a default that this family cannot do without. A state model's sequence is optional.
std::vector<std::string_view> needed_keys(const ModelSpec& model) {
  if (model.family == "state") return {"parameters"};
  return {"layers", "hidden", "heads", "vocab", "sequence"};
}

void report_shapeless(Resolution& r, const Source& file, Place model_key) {
  std::vector<std::string_view> names;
  for (const Preset& preset : model_presets()) names.push_back(preset.name);
  Diagnostic diagnostic =
      file.error("NQD1020", model_key, "model", "the model has neither a preset nor a shape");
  diagnostic.expected = "preset, or layers, hidden, heads, vocab and sequence";
  diagnostic.hint = "presets: " + joined(names);
  r.findings.add(std::move(diagnostic), "model");
}

void report_missing(Resolution& r, const std::vector<std::string_view>& missing, const Source& file,
                    Place model_key) {
  Diagnostic diagnostic =
      file.error("NQD1014", model_key, "model", "the model lacks " + joined(missing));
  diagnostic.hint =
      "add `" + std::string(missing.front()) + ":` under model:, or start from a preset";
  r.findings.add(std::move(diagnostic), "");
  for (const std::string_view key : missing) {
    r.findings.unreliable.push_back("model." + std::string(key));
  }
}

void report_misfits(Resolution& r, const std::vector<Assignment>& given) {
  const ModelSpec& model = r.draft.config.model;
  for (const Assignment& assignment : given) {
    if (applies_to(*assignment.field, model.family)) continue;
    const std::string path(assignment.field->path);
    Diagnostic diagnostic =
        assignment.source->error("NQD1021", assignment.key_place, path,
                                 path + " does not apply to a model of family " + model.family);
    diagnostic.hint = model.family == "gpt"
                          ? "remove it: the parameters of a gpt are counted from its shape"
                          : "remove it: a state model is known by its parameter count alone";
    r.findings.add(std::move(diagnostic), path);
  }
}

}  // namespace

void check_model_keys(Resolution& r, const std::vector<Assignment>& given, const Source& file,
                      Place model_key) {
  if (!r.reliable("model") || !r.reliable("model.family") || !r.reliable("model.preset")) return;
  const ModelSpec& model = r.draft.config.model;
  if (model_key.line == 0 && !r.given("model.preset") && !r.given("model.layers")) {
    Diagnostic diagnostic = file.error("NQD1028", {}, "model", "the config has no model section");
    diagnostic.hint = "add `model: {preset: gpt2-124m}` or a shape of your own";
    r.findings.add(std::move(diagnostic), "model");
    return;
  }
  report_misfits(r, given);
  const std::vector<std::string_view> needed = needed_keys(model);
  std::vector<std::string_view> missing;
  for (const std::string_view key : needed) {
    const std::string path = "model." + std::string(key);
    if (!r.given(path) && r.reliable(path)) missing.push_back(key);
  }
  if (missing.empty()) return;
  if (model.family == "gpt" && missing.size() == needed.size()) {
    report_shapeless(r, file, model_key);
  } else {
    report_missing(r, missing, file, model_key);
  }
}

}  // namespace nqd::planner

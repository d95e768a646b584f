#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "planner/config/presets.h"
#include "planner/config/resolution.h"
#include "planner/config/suggest.h"

namespace nqd::planner {
namespace {

using Keys = std::vector<std::string_view>;

// Keys without a default that this family cannot do without. Only those with tokens need a
// sequence.
Keys needed_keys(const ModelSpec& model) {
  const std::string& family = model.family;
  if (family == "state") return {"parameters"};
  if (family == "custom") return {"blocks"};
  if (family == "edsr") return {"image.size", "image.features", "image.blocks", "image.scale"};
  if (family == "unet") {
    return {"image.size", "image.features", "image.blocks", "image.multipliers"};
  }
  if (family == "vit") {
    return {"layers", "hidden", "heads", "image.size", "image.patch", "image.classes"};
  }
  if (family == "timeseries") {
    return {"layers", "hidden", "heads", "sequence", "input_features", "output_features"};
  }
  if (family == "moe") {
    return {
        "layers", "hidden", "heads", "vocab", "sequence", "moe.experts", "moe.experts_per_token"};
  }
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
  const std::string_view first = missing.front();
  const std::string_view section = parent_of(first);
  diagnostic.hint = "add `" + std::string(leaf_of(first)) + ":` under model" +
                    (section.empty() ? "" : "." + std::string(section)) +
                    ":, or start from a preset";
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
    if (model.family == "state") {
      diagnostic.hint = "remove it: a state model is known by its parameter count alone";
    } else if (path == "model.parameters") {
      diagnostic.hint =
          "remove it: the parameters of a " + model.family + " are counted from its shape";
    } else {
      diagnostic.hint = "remove it: it is a key of family " + std::string(assignment.field->family);
    }
    r.findings.add(std::move(diagnostic), path);
  }
}

// Whether the keys of a model agree with each other; what a mesh divides is for the mesh rules.
class ModelConsistency {
 public:
  ModelConsistency(Resolution& resolution, const std::vector<Assignment>& given, const Source& file,
                   Place model_key)
      : r_(resolution), given_(given), file_(file), model_key_(model_key) {}

  void check() {
    check_experts();
    check_latent_attention();
    check_images();
  }

 private:
  // At the key, or at `model` when a preset gave it. What the section describes is not used again.
  void report(std::string_view path, const std::string& message, const std::string& hint) {
    const auto last = std::find_if(given_.rbegin(), given_.rend(),
                                   [&](const Assignment& one) { return one.field->path == path; });
    const bool here = last != given_.rend();
    Diagnostic diagnostic =
        (here ? *last->source : file_)
            .error("NQD1033", here ? last->value.place : model_key_, std::string(path), message);
    diagnostic.hint = hint;
    r_.findings.add(std::move(diagnostic), "model");
  }
  bool judged(std::string_view path) const { return r_.reliable(path); }
  void check_experts();
  void check_latent_attention();
  void check_images();

  Resolution& r_;
  const std::vector<Assignment>& given_;
  const Source& file_;
  Place model_key_;
};

void ModelConsistency::check_experts() {
  const ModelSpec& model = r_.draft.config.model;
  if (model.family != "moe" || !judged("model.moe")) return;
  const MoeSpec& moe = model.moe;
  if (moe.experts_per_token > moe.experts) {
    report("model.moe.experts_per_token",
           "a token visits " + std::to_string(moe.experts_per_token) + " of " +
               std::to_string(moe.experts) + " experts",
           "experts_per_token is at most experts");
  }
  if (moe.experts > 0 && moe.experts_per_token == 0) {
    report("model.moe.experts_per_token", "no token visits an expert",
           "set experts_per_token (top-k) to at least 1");
  }
  // Not given it follows from ffn_hidden.
  if (moe.experts > 0 && moe.expert_hidden == 0 && r_.given("model.moe.expert_hidden")) {
    report("model.moe.expert_hidden", "experts of width 0 compute nothing",
           "set expert_hidden to at least 1, or remove it for that of ffn_hidden");
  }
}

void ModelConsistency::check_latent_attention() {
  const ModelSpec& model = r_.draft.config.model;
  const MlaSpec& mla = model.mla;
  if (!is_transformer(model) || !judged("model.mla")) return;
  const std::pair<const char*, std::int64_t> parts[] = {{"kv_lora_rank", mla.kv_lora_rank},
                                                        {"qk_nope_head_dim", mla.qk_nope_head_dim},
                                                        {"qk_rope_head_dim", mla.qk_rope_head_dim},
                                                        {"v_head_dim", mla.v_head_dim}};
  std::vector<std::string_view> missing;
  for (const auto& [key, value] : parts) {
    if (value == 0) missing.emplace_back(key);
  }
  const bool any = missing.size() < std::size(parts) || mla.q_lora_rank > 0;
  if (!any || missing.empty()) return;
  report("model.mla", "multi-head latent attention lacks " + joined(missing),
         "give kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim and v_head_dim, or none of them");
}

void ModelConsistency::check_images() {
  const ModelSpec& model = r_.draft.config.model;
  const ImageSpec& image = model.image;
  if (!judged("model.image")) return;
  const bool pictures = model.family == "vit" || model.family == "edsr" || model.family == "unet";
  if (pictures && (image.size < 1 || image.channels < 1)) {
    return report(image.size < 1 ? "model.image.size" : "model.image.channels",
                  "a picture of " + std::to_string(image.size) + " pixels a side with " +
                      std::to_string(image.channels) + " channels is none",
                  "image.size and image.channels are at least 1");
  }
  if (model.family == "vit" && image.patch < 1) {
    return report("model.image.patch", "patches of 0 pixels do not tile a picture",
                  "image.patch is at least 1 and divides image.size");
  }
  if (model.family == "unet" && image.multipliers.empty()) {
    return report("model.image.multipliers", "a UNet without levels",
                  "image.multipliers has a number a level, as [1, 2, 2, 2]");
  }
  if (model.family == "vit" && image.patch > 0 && image.size % image.patch != 0) {
    report("model.image.patch",
           "patches of " + std::to_string(image.patch) + " pixels do not tile a picture of " +
               std::to_string(image.size),
           "image.size is a multiple of image.patch");
  }
  const std::int64_t scale = image.scale;
  if (model.family == "edsr" && scale != 3 && (scale < 1 || (scale & (scale - 1)) != 0)) {
    report("model.image.scale", "pixel shuffling cannot enlarge by " + std::to_string(scale),
           "image.scale is 3 or a power of 2");
  }
  const auto levels = static_cast<std::int64_t>(image.multipliers.size());
  if (model.family == "unet" && levels > 0 &&
      (levels > 20 || image.size % (std::int64_t{1} << (levels - 1)) != 0)) {
    report("model.image.size",
           "a picture of " + std::to_string(image.size) + " pixels cannot be halved " +
               std::to_string(levels - 1) + " times",
           "image.size is a multiple of 2^(levels - 1); image.multipliers has a number a level");
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
  if (missing.empty()) {
    ModelConsistency(r, given, file, model_key).check();
    return;
  }
  const bool no_family = !r.given("model.family");
  if (no_family && missing.size() == needed.size()) {
    report_shapeless(r, file, model_key);
  } else {
    report_missing(r, missing, file, model_key);
  }
}

}  // namespace nqd::planner

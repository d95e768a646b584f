#include "planner/import/hugging_face_constants.h"

#include <algorithm>
#include <optional>
#include <string>

#include "planner/import/importers.h"

namespace nqd::planner {
namespace {

struct Constants {
  std::string_view type;
  std::string_view epsilon_key = "rms_norm_eps";
  double epsilon = 1e-6;
  double rope_base = 10000;
  std::string_view base_key = "rope_theta";
};

// Those that differ from Llama's, which come last; opt has no key for its epsilon.
constexpr Constants kConstants[] = {
    {.type = "gpt2", .epsilon_key = "layer_norm_epsilon", .epsilon = 1e-5},
    {.type = "opt", .epsilon_key = "", .epsilon = 1e-5},
    {.type = "vit", .epsilon_key = "layer_norm_eps", .epsilon = 1e-12},
    {.type = "starcoder2", .epsilon_key = "norm_epsilon", .epsilon = 1e-5},
    {.type = "gpt_neox",
     .epsilon_key = "layer_norm_eps",
     .epsilon = 1e-5,
     .base_key = "rotary_emb_base"},
    {.type = "phi3", .epsilon = 1e-5},
    {.type = "mixtral", .epsilon = 1e-5, .rope_base = 1e6},
    {.type = ""}};

const Constants& constants_of(std::string_view type) {
  return *std::find_if(std::begin(kConstants), std::end(kConstants),
                       [&](const Constants& one) { return one.type == type || one.type.empty(); });
}

// Whether `section` says the base too.
bool import_scaling(ForeignTable& section) {
  const bool based = section.read("rope_theta", "model.rope_base");
  // Older files say `type`.
  const std::string_view type = section.has("rope_type") ? "rope_type" : "type";
  const bool plain = section.is_text(type, "default");
  if (plain || section.is_text(type, "llama3")) {
    section.take(type);
    if (type == "rope_type") section.take("type");
  }
  if (!plain && section.is_text(type, "llama3")) {
    for (const char* key :
         {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}) {
      section.read(key, "model.rope_scaling." + std::string(key));
    }
  }
  section.drop_rest({}, "nqd stretches rotary frequencies as Llama 3.1 does, or not at all");
  return based;
}

void import_rotary(ForeignTable& root, const Constants& constants) {
  bool based = root.read(constants.base_key, "model.rope_base");
  // Versions before 5 of transformers have rope_theta and rope_scaling, later ones rope_parameters.
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (root.is_null(key)) {
      root.take(key);
    } else if (std::optional<ForeignTable> section = root.section(key)) {
      based = import_scaling(*section) || based;
    }
  }
  if (based) return;
  set_default(root.draft(), "model.rope_base", constants.rope_base,
              "the default of " + std::string(constants.base_key));
}

}  // namespace

void import_hugging_face_constants(ForeignTable& root, std::string_view model_type) {
  const Constants& constants = constants_of(model_type);
  const std::string_view key = constants.epsilon_key;
  if (key.empty() || !root.read(key, "model.norm_epsilon")) {
    set_default(
        root.draft(), "model.norm_epsilon", constants.epsilon,
        key.empty() ? std::string("of this architecture") : "the default of " + std::string(key));
  }
  if (root.draft().is("model.positions", std::string("rotary"))) import_rotary(root, constants);
}

}  // namespace nqd::planner

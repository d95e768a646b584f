// nqd's configs as other tools write them, and the list of what those cannot say.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/config/config.h"

namespace nqd::planner {

// megatron   the arguments of Megatron-LM's pretrain_gpt.py behind a torchrun line, one a line,
//            quoted for the shell; decoders over tokens only
// hf         a Hugging Face config.json of the model, of whichever model_type has its shape
// deepspeed  DeepSpeed's JSON: batch, precision, ZeRO stage and optimizer
enum class ExportFormat : std::uint8_t { kMegatron, kHuggingFace, kDeepSpeed };
// "megatron", "hf", "deepspeed".
std::optional<ExportFormat> parse_export_format(std::string_view text);

// A value of the config that the foreign text does not say.
struct InexpressibleKey {
  std::string path;   // "train.ema"
  std::string value;  // as YAML prints it
  std::string reason;
};

struct ExportResult {
  std::string text;                             // empty when the format has no such model
  std::vector<InexpressibleKey> inexpressible;  // in the order of the config reference
};

// A valid config as another tool's. The text is imported again: every key that comes back with
// another value is listed, and every key that was given and that the format has no place for. Names
// of presets and families are not values: what they stand for is written out.
ExportResult export_config(const LoadedConfig& loaded, ExportFormat format);

// {"text", "inexpressible": [{"path", "value", "reason"}]}: schemas/export.schema.json.
std::string export_json(const ExportResult& result);

}  // namespace nqd::planner

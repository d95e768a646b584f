// nqd's configs as other tools write them, and the list of what those cannot say.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/spec.h"

namespace nqd::planner {

// A value of the config that the foreign format has no way to say.
struct InexpressibleKey {
  std::string path;   // "train.ema"
  std::string value;  // as YAML prints it
  std::string reason;
};

struct ExportResult {
  std::string text;
  std::vector<InexpressibleKey> inexpressible;  // in the order of the config reference
};

// The arguments of Megatron-LM's pretrain_gpt.py behind a torchrun line, one a line, quoted for the
// shell. `import_config` reads them back to the same model, mesh and training, but for what is
// listed. No text for a family that is not a decoder over tokens.
ExportResult export_megatron(const Config& config);

// A Hugging Face config.json of the model: model_type llama, mixtral, deepseek_v3 or gpt2,
// whichever has its shape. No text when none has.
ExportResult export_hugging_face(const Config& config);

// DeepSpeed's JSON: batch, precision, ZeRO stage and optimizer; the model is listed.
ExportResult export_deepspeed(const Config& config);

// {"text", "inexpressible": [{"path", "value", "reason"}]}.
std::string export_json(const ExportResult& result);

}  // namespace nqd::planner

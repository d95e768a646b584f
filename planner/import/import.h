// Configs of other tools to nqd's, and the list of what nqd's cannot hold.
//   megatron    a shell script, or text that holds the arguments of Megatron-LM's pretrain_gpt.py
//   deepspeed   the JSON given as --deepspeed_config, with the model's Hugging Face config.json
//   hf          a Hugging Face config.json: the model section alone
//   torchtitan  a TOML job config
// docs/import.md has the correspondence, key by key.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "base/error.h"
#include "planner/config/field.h"
#include "planner/config/source.h"

namespace nqd::planner {

enum class ForeignFormat : std::uint8_t { kMegatron, kDeepSpeed, kHuggingFace, kTorchTitan };
// "megatron", "deepspeed", "hf", "torchtitan".
std::string_view name(ForeignFormat format);
std::optional<ForeignFormat> parse_foreign_format(std::string_view text);

struct ImportRequest {
  ForeignFormat format = ForeignFormat::kMegatron;
  // One; of megatron also several, read one after the other as one script.
  std::vector<Source> files;
  std::optional<Source> model;           // deepspeed: the model's config.json
  std::vector<std::string> definitions;  // megatron: "NAME=VALUE", set before the first file
  std::int64_t world_size = 0;           // ranks, where the files do not say; 0 = not given
};

struct ImportedValue {
  std::string path;     // "parallel.tp"
  Value value;          // of the field's kind; a choice by its name
  std::string comment;  // where it comes from: "--tensor-model-parallel-size 8, line 12"
};

// A key that was understood as a key and yet has no place in nqd's config.
struct UnrepresentedKey {
  std::string key;    // "--lr-decay-style", "zero_optimization.overlap_comm"
  std::string value;  // as written, cut to 80 bytes
  SourceLocation where;
  std::string reason;
};

struct ImportResult {
  std::vector<ImportedValue> values;  // in the order of the config reference
  std::string yaml;                   // the config, commented; empty when the input is malformed
  std::vector<UnrepresentedKey> unrepresented;  // in the order of the input
  // Sorted by place. Besides what the reader found, every rule that the config breaks, at the place
  // of the foreign key that the value came from.
  std::vector<Diagnostic> diagnostics;
  // kUsage: the input is malformed; kNo: it contradicts itself or breaks a rule of the mesh; kOk:
  // `yaml` loads, unless a warning (NQD2315) says what the input leaves open.
  ExitCode exit_code = ExitCode::kOk;
};

// Never throws for bad input.
ImportResult import_config(const ImportRequest& request);

// {"config", "yaml", "unrepresented", "diagnostics"}: schemas/import.schema.json.
std::string import_json(const ImportResult& result);

}  // namespace nqd::planner

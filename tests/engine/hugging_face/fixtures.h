// The checkpoints that transformers wrote (tests/fixtures/make_hf_fixture.py).
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "engine/io/hugging_face.h"
#include "planner/spec.h"

namespace nqd::tests {

inline constexpr const char* kCheckpoints[] = {"gpt2", "llama", "qwen2", "llama3"};

std::filesystem::path checkpoint(const std::string& name);

// One rank's config with the model section that `nqd import --from hf` makes of its config.json.
planner::Config config_of(const std::string& name);

using Tensors = std::map<std::string, std::vector<float>>;

// Every tensor of the model by nqd's name.
Tensors all_weights(const engine::HuggingFaceWeights& weights, const planner::ModelSpec& model);

// What a folder's model.safetensors holds, by its own names.
Tensors file_tensors(const std::filesystem::path& file);

}  // namespace nqd::tests

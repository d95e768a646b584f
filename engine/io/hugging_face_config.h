// The config.json beside the weights of a Hugging Face model.
#pragma once

#include <filesystem>
#include <string>

#include "base/dtype.h"
#include "planner/spec.h"

namespace nqd::engine {

// Throws Error (kUsage): NQD2001 when the file cannot be read, NQD2073 when it describes another
// model than `model`, or one that the engine computes otherwise than transformers does (another
// activation, a scaling of the rotary positions that is not Llama 3.1's, a window). Without
// learned positions the sequence may be shorter than max_position_embeddings.
void check_hugging_face_config(const std::filesystem::path& file, const planner::ModelSpec& model);

// The text of a config.json with which transformers computes what the engine does. `type`: of the
// stored weights. Throws as hugging_face_model.
std::string hugging_face_config(const planner::ModelSpec& model, DType type);

}  // namespace nqd::engine

// What a config.json says of the constants in a model's function: they change no size.
#pragma once

#include <string_view>

#include "planner/import/foreign_table.h"

namespace nqd::planner {

// Reads model.norm_epsilon and, where model.positions is rotary, model.rope_base and
// model.rope_scaling; what is absent has the default of the configuration class of `model_type` in
// github.com/huggingface/transformers (5.24). Other scalings than Llama 3.1's are unrepresented.
void import_hugging_face_constants(ForeignTable& root, std::string_view model_type);

}  // namespace nqd::planner

// How fast the pairs of columns of a head turn with position.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/spec.h"

namespace nqd::engine {

// Radians a position of the head_width / 2 pairs. Pair i: model.rope_base^(−2i / head_width); with
// model.rope_scaling as in Llama 3.1 (_compute_llama3_parameters of transformers'
// modeling_rope_utils.py): n being the turns that a frequency f makes in
// original_max_position_embeddings, f where n ≥ high_freq_factor, f / factor where
// n ≤ low_freq_factor, and in between the mean of the two, weighted linearly in n.
std::vector<double> rotary_frequencies(const planner::ModelSpec& model, std::int64_t head_width);

}  // namespace nqd::engine

// A decoder in double, written from its definition (engine/models/transformer/transformer_chunk.h):
// forward alone, without blocks, slices or buffers. Its masks alone are the engine's.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "planner/spec.h"
#include "tests/engine/models/run_model.h"

namespace nqd::tests {

using DoubleTensors = std::map<std::string, std::vector<double>>;

// The sum of the cross-entropies of the batch's unmasked targets. `config`: a model of families gpt
// or llama without experts; `step`: dropout's.
double reference_loss(const planner::Config& config, const DoubleTensors& weights,
                      const Batch& batch, const ModelPass& pass, std::int64_t step);

}  // namespace nqd::tests

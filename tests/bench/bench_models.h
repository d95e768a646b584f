// The two model shapes that the engine's speed is quoted on.
#pragma once

#include "planner/spec.h"

namespace nqd::bench {

// The model of configs/quickstart.yaml: byte vocabulary, 128 tokens a sequence.
inline planner::ModelSpec quickstart_model() {
  planner::ModelSpec model;
  model.layers = 4;
  model.hidden = 192;
  model.heads = 6;
  model.ffn_hidden = 768;
  model.vocab = 256;
  model.sequence = 128;
  return model;
}
inline constexpr std::int64_t kQuickstartMicroBatch = 8;

// 10.8 M parameters, 1,024 tokens a micro-batch.
inline planner::ModelSpec six_layer_model() {
  planner::ModelSpec model;
  model.layers = 6;
  model.hidden = 384;
  model.heads = 6;
  model.ffn_hidden = 1536;
  model.vocab = 256;
  model.sequence = 256;
  return model;
}
inline constexpr std::int64_t kSixLayerMicroBatch = 4;

}  // namespace nqd::bench

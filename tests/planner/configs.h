// Configs that several planner tests start from.
#pragma once

#include <algorithm>

#include "planner/spec.h"

namespace nqd::planner {

inline ModelSpec gpt_model(std::int64_t layers, std::int64_t hidden, std::int64_t heads,
                           std::int64_t vocab, std::int64_t sequence) {
  ModelSpec model;
  model.layers = layers;
  model.hidden = hidden;
  model.heads = heads;
  model.ffn_hidden = 4 * hidden;
  model.vocab = vocab;
  model.sequence = sequence;
  return model;
}

// Only the parameter count is known; `ranks` devices of 80 GB, at most eight a node.
inline Config state_config(double parameters, Engine engine, std::int64_t ranks) {
  Config config;
  config.source = "state.yaml";
  config.model.family = "state";
  config.model.parameters = parameters;
  config.cluster.nodes = (ranks + 7) / 8;
  config.cluster.gpus_per_node = std::min<std::int64_t>(ranks, 8);
  config.cluster.memory_bytes = 80e9;
  config.parallel.engine = engine;
  config.parallel.dp = ranks;
  config.train.global_batch_size = ranks;
  return config;
}

// GPT-3 175B as in Korthikanti et al.: tp 8, pp 8, m = 64 on 64 A100s of 80 GB, the scores
// materialised and dropout's masks kept.
inline Config gpt3_config() {
  Config config;
  config.source = "gpt3.yaml";
  config.model = gpt_model(96, 12288, 96, 51200, 2048);
  config.cluster.nodes = 8;
  config.cluster.gpus_per_node = 8;
  config.cluster.memory_bytes = 80e9;
  config.cluster.peak_flops = 312e12;
  config.cluster.memory_bandwidth_bytes_per_s = 2.039e12;
  config.cluster.intra_node = {5e-6, 300e9};
  config.cluster.inter_node = {5e-6, 25e9};
  config.parallel.tp = 8;
  config.parallel.pp = 8;
  config.train.global_batch_size = 64;
  config.train.attention = Attention::kMaterialised;
  config.train.dropout = true;
  return config;
}

// nqd's own engine: float32 DDP on CPU ranks.
inline Config cpu_config(std::int64_t dp) {
  Config config;
  config.source = "cpu.yaml";
  config.model = gpt_model(3, 16, 2, 97, 24);
  config.cluster.preset = "cpu-host";
  config.cluster.gpus_per_node = dp;
  config.parallel.dp = dp;
  config.train.micro_batch_size = 2;
  config.train.global_batch_size = 6 * dp;
  config.train.precision = Precision::kFloat32;
  config.train.gradient_precision = Precision::kFloat32;
  config.train.bucket_bytes = 5000;
  config.numerics.mode = collectives::Numerics::kFast;
  return config;
}

}  // namespace nqd::planner

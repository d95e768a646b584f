// Models and clusters small enough to try every plan.
#pragma once

#include "planner/spec.h"

namespace nqd::planner {

inline Config small_config(std::int64_t nodes, std::int64_t gpus_per_node) {
  Config config;
  config.source = "small.yaml";
  ModelSpec& model = config.model;
  model.layers = 6;
  model.hidden = 256;
  model.heads = 8;
  model.kv_heads = 4;
  model.head_dim = 32;
  model.ffn_hidden = 1024;
  model.vocab = 1000;
  model.sequence = 256;
  ClusterSpec& cluster = config.cluster;
  cluster.nodes = nodes;
  cluster.gpus_per_node = gpus_per_node;
  cluster.peak_flops = 312e12;
  cluster.memory_bandwidth_bytes_per_s = 2.039e12;
  cluster.intra_node = {5e-6, 300e9};
  cluster.inter_node = {5e-6, 25e9};
  config.train.global_batch_size = 24;
  return config;
}

inline Config small_expert_config(std::int64_t nodes, std::int64_t gpus_per_node) {
  Config config = small_config(nodes, gpus_per_node);
  config.model.family = "moe";
  config.model.layers = 3;
  config.model.gated_mlp = true;
  config.model.tied_head = false;
  config.model.moe.experts = 4;
  config.model.moe.experts_per_token = 2;
  config.model.moe.expert_hidden = 512;
  config.train.global_batch_size = 8;
  return config;
}

}  // namespace nqd::planner

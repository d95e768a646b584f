// The small model whose bytes and calls these tests work out by hand.
#pragma once

#include <cstdint>

#include "tests/planner/configs.h"

namespace nqd::planner {

inline constexpr std::int64_t kHidden = 64;
inline constexpr std::int64_t kVocab = 512;
inline constexpr std::int64_t kSequence = 32;
// norm1, qkv, proj, norm2, fc, mlp.proj with their biases.
inline constexpr std::int64_t kLayer = 12 * kHidden * kHidden + 13 * kHidden;

// Four layers; `micro_batches` of two sequences a rank, the ranks on one node.
inline Config small_gpt(std::int64_t micro_batches, std::int64_t dp, std::int64_t tp,
                        std::int64_t pp) {
  Config config;
  config.model = gpt_model(4, kHidden, 8, kVocab, kSequence);
  config.model.kv_heads = 8;
  config.model.head_dim = 8;
  config.cluster.preset = "cpu-host";
  config.cluster.gpus_per_node = dp * tp * pp;
  config.parallel.dp = dp;
  config.parallel.tp = tp;
  config.parallel.pp = pp;
  config.train.micro_batch_size = 2;
  config.train.global_batch_size = 2 * micro_batches * dp;
  config.train.precision = Precision::kFloat32;
  return config;
}

}  // namespace nqd::planner

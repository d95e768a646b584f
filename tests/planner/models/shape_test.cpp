#include "planner/models/shape.h"

#include <doctest/doctest.h>

#include "base/units.h"
#include "planner/layout/layout.h"
#include "tests/planner/configs.h"

namespace nqd::planner {
namespace {

ModelSpec llama(std::int64_t layers, std::int64_t hidden, std::int64_t heads, std::int64_t kv_heads,
                std::int64_t ffn, std::int64_t vocab, std::int64_t sequence) {
  ModelSpec model = gpt_model(layers, hidden, heads, vocab, sequence);
  model.family = "llama";
  model.kv_heads = kv_heads;
  model.ffn_hidden = ffn;
  model.gated_mlp = true;
  model.bias = false;
  model.qkv_bias = false;
  model.norm = Norm::kRmsNorm;
  model.positions = Positions::kRotary;
  model.tied_head = false;
  return model;
}

double saved_bytes(const BlockShape& block) {
  double bytes = 0;
  for (const SavedTensor& tensor : block.saved) bytes += tensor.elements * tensor.element_bytes;
  return bytes;
}

double passes(const BlockShape& block, Split split, bool forward) {
  double elements = 0;
  for (const Pointwise& pass : block.pointwise) {
    if (pass.split == split) elements += forward ? pass.forward_elements : pass.backward_elements;
  }
  return elements;
}

TEST_CASE("FLOPs of a GPT are 72·B·L·s·h²·(1 + s/(6h) + V/(12hL)) with all scores") {
  const double s = 2048;
  const double h = 6144;
  const double layers = 48;
  const double vocab = 51200;
  ModelSpec model = gpt_model(48, 6144, 64, 51200, 2048);
  model.causal = false;
  const SampleFlops flops = forward_flops(model_shape(model, TrainSpec{}));
  CHECK(3 * (flops.matmul + flops.attention) ==
        doctest::Approx(72 * layers * s * h * h * (1 + s / (6 * h) + vocab / (12 * h * layers))));
  model.causal = true;
  const SampleFlops causal = forward_flops(model_shape(model, TrainSpec{}));
  CHECK(2 * causal.attention == flops.attention);
  CHECK(causal.attention_full == flops.attention);
  CHECK(flops.head == 2 * s * h * vocab);
}

TEST_CASE("Llama 3 8B at 8k tokens: 5.79e10 FLOPs a token with all scores, 5.15e10 with half") {
  const ModelShape shape = model_shape(llama(32, 4096, 32, 8, 14336, 128256, 8192), TrainSpec{});
  const SampleFlops flops = forward_flops(shape);
  CHECK(3 * (flops.matmul + flops.attention_full) / 8192 ==
        doctest::Approx(5.79e10).epsilon(0.001));
  CHECK(3 * (flops.matmul + flops.attention) / 8192 == doctest::Approx(5.15e10).epsilon(0.001));
}

TEST_CASE("a layer keeps what Megatron-LM was measured to keep: 1,320 MiB") {
  // github.com/NVIDIA/Megatron-LM pull request 482: s 2048, b 4, h 4096, f 10880, flash attention,
  // dropout, SwiGLU without a fused kernel. Norms 128, attention 384, MLP 744, masks 64 MiB.
  const ModelSpec model = llama(32, 4096, 32, 32, 10880, 32000, 2048);
  TrainSpec train;
  train.dropout = true;
  train.fused_kernels = false;
  const ModelShape shape = model_shape(model, train);
  const BlockShape& layer = shape.kinds.at(1);
  const double statistics = 4.0 * 2048 * 32;  // of the softmax, 1 MiB, which the count leaves out
  CHECK(4 * (saved_bytes(layer) - statistics) / 1048576 == 1320);
  train.fused_kernels = true;
  const BlockShape fused = model_shape(model, train).kinds.at(1);
  CHECK(4 * (saved_bytes(layer) - saved_bytes(fused)) / 1048576 == 170 + 64);
}

TEST_CASE("element-wise traffic of a layer with dropout is 22·n·h bytes forward, 24·n·h backward") {
  TrainSpec train;
  train.dropout = true;
  const double n = 1024;
  const double h = 768;
  const BlockShape layer = model_shape(gpt_model(12, 768, 12, 50257, 1024), train).kinds.at(1);
  CHECK(2 * passes(layer, Split::kSequence, true) == 22 * n * h);
  CHECK(2 * passes(layer, Split::kSequence, false) == 24 * n * h);
  // GELU and the layout of queries, keys and values.
  CHECK(2 * passes(layer, Split::kTensor, true) == 4 * n * 4 * h + 4 * n * 3 * h);
  CHECK(2 * passes(layer, Split::kTensor, false) == 6 * n * 4 * h + 4 * n * 3 * h);
  CHECK(layer.tensor_sums == 2);
}

TEST_CASE("parts of a rank: key-value heads are not divided, the vocabulary is padded") {
  ParameterCounts counts;
  counts.replicated = 10;
  counts.tensor = 160;
  counts.kv = 80;
  counts.kv_heads = 2;
  counts.vocabulary = 70;
  counts.vocabulary_rows = 7;
  counts.expert = 640;
  CHECK(counts.total() == 960);
  CHECK(counts.of_rank(1, 1, 0) == 960);
  CHECK(counts.of_rank(8, 4, 0) == 10 + 20 + 40 + 10 + 20);
  CHECK(counts.of_rank(8, 4, 1) == 10 + 20 + 40 + 10 + 160);

  const Division division{.tp = 8, .cp = 2, .expert_tp = 2, .kv_heads = 2};
  CHECK(activation_share(Split::kNone, division) == 0.5);
  CHECK(activation_share(Split::kTensor, division) == 0.5 / 8);
  CHECK(activation_share(Split::kKeyValue, division) == 0.5 / 2);
  CHECK(activation_share(Split::kSequence, division) == 0.5);
  CHECK(activation_share(Split::kExpert, division) == 0.5 * 2 / 8);
}

TEST_CASE("experts: a token's FLOPs are those of its experts, the weights those of all") {
  ModelSpec model = llama(4, 512, 8, 8, 1024, 1000, 64);
  const SampleFlops dense = forward_flops(model_shape(model, TrainSpec{}));
  model.family = "moe";
  model.moe.experts = 16;
  model.moe.experts_per_token = 2;
  model.moe.expert_hidden = 512;
  const ModelShape shape = model_shape(model, TrainSpec{});
  const SampleFlops routed = forward_flops(shape);
  const double router = 2.0 * 64 * 512 * 16 * 4;
  CHECK(routed.matmul - router == doctest::Approx(dense.matmul));
  CHECK(shape.kinds.at(1).all_to_all_elements == 64.0 * 2 * 512);
  model.moe.capacity_factor = 0.5;
  const ModelShape dropping = model_shape(model, TrainSpec{});
  CHECK(dropping.kinds.at(1).all_to_all_elements == 64.0 * 512);

  model.moe.dense_layers = 1;
  const ModelShape mixed = model_shape(model, TrainSpec{});
  CHECK(layer_count(mixed) == 4);
  CHECK(mixed.runs.at(1).count == 1);
  CHECK(mixed.runs.at(2).count == 3);
}

TEST_CASE("latent attention keeps compressed and decompressed queries, keys and values") {
  ModelSpec model = llama(2, 256, 4, 4, 512, 1000, 32);
  model.mla = {96, 64, 32, 16, 32};
  const BlockShape layer = model_shape(model, TrainSpec{}).kinds.at(1);
  CHECK(layer.attention.qk_dim == 48);
  CHECK(layer.attention.v_dim == 32);
  CHECK(layer.attention.forward_flops() == 0.5 * 2 * 32 * 32 * 4 * (48 + 32));
  // q_down, q_norm, q_up, kv_down, kv_norm, kv_up, proj, two norms, the gated MLP.
  CHECK(layer.parameters.total() == 256 * 96 + 96 + 96 * 4 * 48 + 256 * (64 + 16) + 64 +
                                        64 * 4 * (32 + 32) + 4 * 32 * 256 + 2 * 256 +
                                        3 * 256 * 512);
}

TEST_CASE("norms of queries and keys have a weight a channel and keep their inputs") {
  ModelSpec model = llama(2, 256, 4, 2, 512, 1000, 32);
  model.head_dim = 96;
  const BlockShape bare = model_shape(model, TrainSpec{}).kinds.at(1);
  model.qk_norm = true;
  const BlockShape layer = model_shape(model, TrainSpec{}).kinds.at(1);
  CHECK(layer.parameters.total() == bare.parameters.total() + 2 * 96);
  CHECK(saved_bytes(layer) == saved_bytes(bare) + 2 * 32 * 96 * (4 + 2));
}

TEST_CASE("a gate on the shared experts has a weight a channel and keeps what it scales") {
  ModelSpec model = llama(2, 256, 4, 4, 512, 1000, 32);
  model.family = "moe";
  model.moe = {
      .experts = 4, .experts_per_token = 2, .expert_hidden = 64, .shared_expert_hidden = 128};
  const BlockShape bare = model_shape(model, TrainSpec{}).kinds.at(1);
  model.moe.shared_gate = true;
  const BlockShape layer = model_shape(model, TrainSpec{}).kinds.at(1);
  CHECK(layer.parameters.total() == bare.parameters.total() + 256);
  CHECK(saved_bytes(layer) == saved_bytes(bare) + 2 * 32 * (256 + 1));
}

TEST_CASE("checkpointing by operation keeps every other product") {
  const double n = 8192;
  const double h = 4096;
  const BlockShape layer =
      model_shape(llama(32, 4096, 32, 8, 14336, 128256, 8192), TrainSpec{}).kinds.at(1);
  double bytes = 0;
  for (const SavedTensor& tensor : layer.saved_by_operation) {
    bytes += tensor.elements * tensor.element_bytes;
  }
  // The input, wq, wv, w1, w2 and attention's output.
  CHECK(bytes == 2 * n * h * (1 + 1 + 0.25 + 3.5 + 1 + 1));
}

}  // namespace
}  // namespace nqd::planner

#include "planner/layout/layout.h"

#include <doctest/doctest.h>

#include <set>

namespace nqd::planner {
namespace {

ModelSpec gpt(std::int64_t layers, std::int64_t hidden, std::int64_t heads,
              std::int64_t vocab = 50257, std::int64_t sequence = 1024) {
  ModelSpec model;
  model.layers = layers;
  model.hidden = hidden;
  model.heads = heads;
  model.ffn_hidden = 4 * hidden;
  model.vocab = vocab;
  model.sequence = sequence;
  return model;
}

TEST_CASE("the published GPT-2 parameter counts") {
  CHECK(parameter_count(gpt(12, 768, 12)) == 124'439'808);
  CHECK(parameter_count(gpt(24, 1024, 16)) == 354'823'168);
  CHECK(parameter_count(gpt(36, 1280, 20)) == 774'030'080);
  CHECK(parameter_count(gpt(48, 1600, 25)) == 1'557'611'200);
}

TEST_CASE("GPT-3 175B follows 12·L·h² + 13·L·h + (V + s)·h + 2·h") {
  const ModelSpec model = gpt(96, 12288, 96, 50257, 2048);
  const std::int64_t h = model.hidden;
  const std::int64_t expected =
      model.layers * (12 * h * h + 13 * h) + (model.vocab + model.sequence) * h + 2 * h;
  CHECK(parameter_count(model) == expected);
  CHECK(parameter_count(model) == 174'604'259'328);
}

TEST_CASE("an untied head adds one vocabulary matrix in the last unit") {
  ModelSpec model = gpt(2, 64, 4, 256, 32);
  const std::int64_t tied = parameter_count(model);
  model.tied_head = false;
  CHECK(parameter_count(model) == tied + 256 * 64);
  const TensorSpec head = parameters(model).back();
  CHECK(head.name == "head.weight");
  CHECK(head.shape == std::vector<std::int64_t>{256, 64});
  CHECK(head.unit == 3);
}

TEST_CASE("tensors come in forward order with the documented names, units and decay") {
  const std::vector<TensorSpec> tensors = parameters(gpt(2, 64, 4, 256, 32));
  REQUIRE(tensors.size() == 2 + 2 * 12 + 2);
  CHECK(tensors[0].name == "embedding.token");
  CHECK(tensors[1].name == "embedding.position");
  CHECK(tensors[4].name == "layers.0.attention.qkv.weight");
  CHECK(tensors[4].shape == std::vector<std::int64_t>{192, 64});
  CHECK(tensors[25].name == "layers.1.mlp.proj.bias");
  CHECK(tensors[27].name == "final_norm.bias");

  std::set<std::string> names;
  std::int64_t unit = 0;
  for (const TensorSpec& tensor : tensors) {
    CHECK(names.insert(tensor.name).second);
    CHECK(tensor.unit >= unit);
    unit = tensor.unit;
    CHECK(tensor.decay == (tensor.shape.size() == 2));
  }
  CHECK(unit == 3);
}

TEST_CASE("only products and the vocabulary are split over tp") {
  std::set<std::string> split;
  for (const TensorSpec& tensor : parameters(gpt(1, 64, 4, 256, 32))) {
    if (tensor.split != TensorSplit::kReplicated) split.insert(tensor.name);
  }
  CHECK(split == std::set<std::string>{"embedding.token", "layers.0.attention.qkv.weight",
                                       "layers.0.attention.qkv.bias",
                                       "layers.0.attention.proj.weight", "layers.0.mlp.fc.weight",
                                       "layers.0.mlp.fc.bias", "layers.0.mlp.proj.weight"});
}

TEST_CASE("a state-only model has a count and no tensors") {
  ModelSpec model;
  model.family = "state";
  model.parameters = 8e9;
  CHECK(parameter_count(model) == 8'000'000'000);
  CHECK(parameters(model).empty());
}

}  // namespace
}  // namespace nqd::planner

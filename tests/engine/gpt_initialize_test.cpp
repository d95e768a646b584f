#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "base/ledger.h"
#include "engine/models/gpt.h"
#include "engine/philox.h"

namespace nqd::engine {

TEST_CASE("Philox4x32-10 gives Random123's known answers") {
  // kat_vectors of the Random123 distribution.
  CHECK(philox4x32_10({0, 0, 0, 0}, {0, 0}) ==
        PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox4x32_10({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}) ==
        PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("FNV-1a gives its published values") {
  CHECK(stream_of("") == 0xcbf29ce484222325);
  CHECK(stream_of("a") == 0xaf63dc4c8601ec8c);
  CHECK(stream_of("foobar") == 0x85944171f73967e8);
}

TEST_CASE("the normal stream has the moments of a standard normal") {
  constexpr std::uint64_t kBlocks = 50'000;
  double sum = 0, squares = 0, fourths = 0, neighbours = 0;
  for (std::uint64_t block = 0; block < kBlocks; ++block) {
    const auto values = normal_block(42, stream_of("test"), block);
    neighbours += static_cast<double>(values[0]) * values[1];
    for (float value : values) {
      const double x = value;
      sum += x;
      squares += x * x;
      fourths += x * x * x * x;
    }
  }
  const double n = 4.0 * kBlocks;
  // Four standard errors each.
  CHECK(std::abs(sum / n) < 4 / std::sqrt(n));
  CHECK(std::abs(squares / n - 1) < 4 * std::sqrt(2 / n));
  CHECK(std::abs(fourths / n - 3) < 4 * std::sqrt(96 / n));
  CHECK(std::abs(neighbours / kBlocks) < 4 / std::sqrt(static_cast<double>(kBlocks)));
}

namespace {

nqd::planner::ModelSpec model_with_layers(std::int64_t layers) {
  nqd::planner::ModelSpec model;
  model.layers = layers;
  model.hidden = 64;
  model.heads = 2;
  model.ffn_hidden = 256;
  model.vocab = 101;
  model.sequence = 16;
  return model;
}

std::span<const float> tensor(const Gpt& model, const std::string& name) {
  const auto& views = model.parameter_views();
  const auto view = std::find_if(views.begin(), views.end(),
                                 [&](const ParameterView& v) { return v.spec.name == name; });
  REQUIRE(view != views.end());
  return model.weights().subspan(static_cast<std::size_t>(view->offset),
                                 static_cast<std::size_t>(view->spec.elements()));
}

double deviation(std::span<const float> values) {
  double squares = 0;
  for (float value : values) squares += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(squares / static_cast<double>(values.size()));
}

}  // namespace

TEST_CASE("tensors start with GPT-2's deviations, norms at one, biases at zero") {
  nqd::MemoryLedger ledger;
  Gpt model(model_with_layers(8), 1, ledger);
  model.initialize(1234);
  const auto check_deviation = [&model](const std::string& name, double expected) {
    INFO(name);
    const double ratio = deviation(tensor(model, name)) / expected;
    CHECK(std::abs(ratio - 1) < 0.05);
  };
  check_deviation("embedding.token", 0.02);
  check_deviation("layers.3.mlp.fc.weight", 0.02);
  check_deviation("layers.3.mlp.proj.weight", 0.005);
  check_deviation("layers.7.attention.proj.weight", 0.005);
  for (float w : tensor(model, "layers.0.norm2.weight")) CHECK(w == 1.0F);
  for (float b : tensor(model, "layers.0.attention.qkv.bias")) CHECK(b == 0.0F);
  for (float b : tensor(model, "final_norm.bias")) CHECK(b == 0.0F);
}

TEST_CASE("a tensor's values depend on seed and name alone, not on the rest of the model") {
  nqd::MemoryLedger ledger;
  Gpt small(model_with_layers(1), 1, ledger), large(model_with_layers(3), 2, ledger);
  small.initialize(9);
  large.initialize(9);
  const auto same = [](std::span<const float> a, std::span<const float> b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  };
  const std::string name = "layers.0.mlp.fc.weight";
  CHECK(same(tensor(small, name), tensor(large, name)));
  CHECK_FALSE(same(tensor(large, name), tensor(large, "layers.1.mlp.fc.weight")));
  const std::vector<float> before(tensor(small, name).begin(), tensor(small, name).end());
  small.initialize(10);
  CHECK_FALSE(same(tensor(small, name), before));
  small.initialize(9);
  CHECK(same(tensor(small, name), before));
}

}  // namespace nqd::engine

#include <doctest/doctest.h>

#include "planner/config/config.h"
#include "planner/layout/layout.h"
#include "planner/plan/memory.h"

namespace nqd::planner {
namespace {

constexpr const char* kMoe =
    "model: {family: moe, layers: 4, hidden: 64, heads: 4, vocab: 100, sequence: 16, ";

Diagnostic only_finding(const std::string& text) {
  const LoadedConfig loaded = load_config_text(text, "t.yaml");
  REQUIRE(loaded.diagnostics.size() == 1);
  return loaded.diagnostics[0];
}

TEST_CASE("keys of a model that disagree are named") {
  const auto check = [](const std::string& text, const std::string& code, const std::string& path) {
    CAPTURE(text);
    const Diagnostic found = only_finding(text);
    CHECK(found.code == code);
    CHECK(found.path == path);
  };
  const std::string moe = kMoe;
  check(moe + "moe: {experts: 4, experts_per_token: 8}}\n", "NQD1033",
        "model.moe.experts_per_token");
  check(moe + "moe: {experts: 4, experts_per_token: 0}}\n", "NQD1033",
        "model.moe.experts_per_token");
  check(moe + "moe: {experts: 4}}\n", "NQD1014", "model");
  check(moe + "moe: {experts: 4, experts_per_token: 1}, mla: {kv_lora_rank: 8}}\n", "NQD1033",
        "model.mla");
  const std::string vit = "model: {family: vit, layers: 2, hidden: 64, heads: 4, image: ";
  check(vit + "{size: 225, patch: 16, classes: 10}}\n", "NQD1033", "model.image.patch");
  check(vit + "{size: 224, patch: 16}}\n", "NQD1014", "model");
  check("model: {family: edsr, image: {size: 48, features: 64, blocks: 16, scale: 5}}\n", "NQD1033",
        "model.image.scale");
  check(
      "model: {family: unet, image: {size: 36, features: 8, blocks: 1, "
      "multipliers: [1, 2, 2, 2]}}\n",
      "NQD1033", "model.image.size");
  check("model: {preset: llama3-8b, parameters: 8e9}\n", "NQD1021", "model.parameters");
}

TEST_CASE("a custom model is its list of blocks") {
  const LoadedConfig loaded = load_config_text(
      "model:\n"
      "  family: custom\n"
      "  blocks:\n"
      "    - {name: stem, parameters: 1000, saved_bytes: 1 MB, input_bytes: 0.1 MB}\n"
      "    - {name: body, count: 3, parameters: 5e6, forward_flops: 1e9, saved_bytes: 20 MB}\n",
      "t.yaml");
  for (const Diagnostic& diagnostic : loaded.diagnostics) INFO(diagnostic.message);
  REQUIRE(loaded.ok());
  CHECK(loaded.config.model.parameters == 15'001'000);
  REQUIRE(loaded.config.model.blocks.size() == 2);
  CHECK(loaded.config.model.blocks[1].count == 3);
  const StageMemory stage = plan_memory(loaded.config).stages.at(0);
  CHECK(stage.categories.at("activations") == 61e6);
  // The resolved text loads to the same blocks.
  const LoadedConfig again = load_config_text(loaded.resolved_yaml, "t.yaml");
  REQUIRE(again.ok());
  CHECK(again.config.model.blocks == loaded.config.model.blocks);
}

TEST_CASE("what is wrong with a block is said where it stands") {
  const auto check = [](const std::string& blocks, const std::string& code,
                        const std::string& part) {
    CAPTURE(blocks);
    const Diagnostic found = only_finding("model: {family: custom, blocks: " + blocks + "}\n");
    CHECK(found.code == code);
    CAPTURE(found.message);
    CHECK((found.message + found.hint).find(part) != std::string::npos);
    CHECK(found.where.line == 1);
  };
  check("7", "NQD1008", "a list of at least one block");
  check("[]", "NQD1008", "a list of at least one block");
  check("[conv]", "NQD1008", "block 1 of model.blocks is a mapping");
  check("[{name: a, parameters: 1}, {parameters: 1}]", "NQD1014", "block 2 lacks name");
  check("[{name: a}]", "NQD1014", "block 1 lacks parameters");
  check("[{name: a, parameter: 1}]", "NQD1006", "did you mean parameters?");
  check("[{name: a, parameters: -1}]", "NQD1009", "");
  check("[{name: a, parameters: 1, input_bytes: 2 MB}]", "NQD1033", "saved_bytes includes");
  check("[{name: a, parameters: 1, saved_bytes: 2 apples}]", "NQD1013", "");
}

}  // namespace
}  // namespace nqd::planner

// Parameter counts of the shipped models against those that were published.
#include <doctest/doctest.h>

#include "planner/config/config.h"
#include "planner/config/presets.h"
#include "planner/layout/layout.h"
#include "planner/models/shape.h"

namespace nqd::planner {
namespace {

Config preset(const std::string& name) {
  const LoadedConfig loaded =
      load_config_text("model: {preset: " + name + "}\ntrain: {precision: bfloat16}\n", "t.yaml");
  for (const Diagnostic& diagnostic : loaded.diagnostics) INFO(diagnostic.message);
  REQUIRE(loaded.ok());
  return loaded.config;
}

TEST_CASE("presets have exactly the published parameters") {
  struct Published {
    const char* name;
    std::int64_t parameters;
  };
  constexpr Published kPublished[] = {
      {"gpt2-124m", 124'439'808},         {"gpt2-350m", 354'823'168},
      {"gpt2-774m", 774'030'080},         {"gpt2-1.5b", 1'557'611'200},
      {"llama2-7b", 6'738'415'616},       {"llama2-13b", 13'015'864'320},
      {"llama2-70b", 68'976'648'192},     {"llama3.2-1b", 1'235'814'400},
      {"llama3-8b", 8'030'261'248},       {"llama3-70b", 70'553'706'496},
      {"llama3-405b", 405'853'388'800},   {"qwen2.5-7b", 7'615'616'512},
      {"qwen2.5-72b", 72'706'203'648},    {"mixtral-8x7b", 46'702'792'704},
      {"mixtral-8x22b", 140'630'071'296}, {"deepseek-v2-lite", 15'706'484'224},
      {"deepseek-v3", 671'026'419'200},   {"vit-b-16", 86'567'656},
      {"vit-l-16", 304'326'632},          {"vit-h-14", 632'045'800},
      {"edsr-baseline-x2", 1'369'859},    {"edsr-x4", 43'089'923},
      {"ddpm-cifar10", 35'746'307},
  };
  for (const Published& published : kPublished) {
    CAPTURE(published.name);
    CHECK(parameter_count(preset(published.name).model) == published.parameters);
  }
  // Rounded in their papers.
  CHECK(parameter_count(preset("gpt3-175b").model) == doctest::Approx(175e9).epsilon(0.003));
  CHECK(parameter_count(preset("gpt3-13b").model) == doctest::Approx(13e9).epsilon(0.02));
  CHECK(parameter_count(preset("megatron-530b").model) == doctest::Approx(530e9).epsilon(0.002));
  CHECK(parameter_count(preset("megatron-1t").model) == doctest::Approx(1e12).epsilon(0.01));
  CHECK(parameter_count(preset("crop-foundation").model) == doctest::Approx(1.95e6).epsilon(0.003));
}

TEST_CASE("tensors, shape and count agree for every preset") {
  for (const Preset& shipped : model_presets()) {
    CAPTURE(shipped.name);
    const Config config = preset(std::string(shipped.name));
    const ModelShape shape = model_shape(config.model, config.train);
    const auto count = static_cast<double>(parameter_count(config.model));
    CHECK(shape.parameters == count);
    CHECK(config.model.parameters == count);
    CHECK(shape.known);
    double tensors = 0;
    for (const TensorSpec& tensor : parameters(config.model)) {
      tensors += static_cast<double>(tensor.elements());
    }
    if (is_transformer(config.model)) CHECK(tensors == count);
    double blocks = 0;
    for (const BlockRun& run : shape.runs) {
      blocks += static_cast<double>(run.count) *
                shape.kinds[static_cast<std::size_t>(run.kind)].parameters.total();
    }
    CHECK(blocks == count);
    CHECK(forward_flops(shape).matmul > 0);
  }
}

TEST_CASE("a multi-token prediction module of DeepSeek-V3 adds 11.5e9 parameters") {
  const Config config = preset("deepseek-v3");
  ModelSpec with_module = config.model;
  with_module.mtp_layers = 1;
  const auto more = parameter_count(with_module) - parameter_count(config.model);
  CHECK(more == doctest::Approx(11.5e9).epsilon(0.01));
}

}  // namespace
}  // namespace nqd::planner

#include "tests/engine/hugging_face/fixtures.h"

#include <doctest/doctest.h>

#include "base/file.h"
#include "engine/io/safetensors.h"
#include "planner/config/config.h"
#include "planner/import/import.h"

namespace nqd::tests {

std::filesystem::path checkpoint(const std::string& name) {
  return std::filesystem::path(NQD_SOURCE_DIR) / "tests/fixtures/hugging_face" / name;
}

planner::Config config_of(const std::string& name) {
  planner::ImportRequest request;
  request.format = planner::ForeignFormat::kHuggingFace;
  request.files.emplace_back("config.json", read_file(checkpoint(name) / "config.json"));
  const planner::ImportResult imported = planner::import_config(request);
  REQUIRE(imported.exit_code == ExitCode::kOk);
  planner::Config config = planner::load_config_text(imported.yaml, "imported").config;
  REQUIRE(config.model.layers == 2);
  config.train.micro_batch_size = config.train.global_batch_size = 1;
  config.train.precision = config.train.gradient_precision = planner::Precision::kFloat32;
  config.train.dropout = false;
  config.numerics.tp_slices = 2;
  return config;
}

Tensors all_weights(const engine::HuggingFaceWeights& weights, const planner::ModelSpec& model) {
  Tensors tensors;
  for (const planner::TensorSpec& tensor : planner::parameters(model)) {
    std::vector<float>& values = tensors[tensor.name];
    values.resize(static_cast<std::size_t>(tensor.elements()));
    weights.fill(tensor, 0, values);
  }
  return tensors;
}

Tensors file_tensors(const std::filesystem::path& file) {
  const engine::SafetensorsFile opened(file);
  Tensors tensors;
  for (const auto& [name, tensor] : opened.tensors()) {
    std::vector<float>& values = tensors[name];
    values.resize(static_cast<std::size_t>(tensor.elements()));
    opened.read(tensor, 0, 1, values);
  }
  return tensors;
}

}  // namespace nqd::tests

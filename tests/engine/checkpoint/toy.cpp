#include "tests/engine/checkpoint/toy.h"

#include <algorithm>

namespace nqd::testing {
namespace {

using engine::CheckpointTensor;
using engine::Extent;
using engine::Quantity;

constexpr Quantity kAll[] = {Quantity::kWeights, Quantity::kMoment0, Quantity::kMoment1};

// Full indices of the rank's elements of a tensor, in their order.
std::vector<std::int64_t> own_elements(const CheckpointTensor& tensor, const Cut& cut, int rank) {
  const int tp = rank % cut.tp;
  const int dp = rank / cut.tp;
  std::vector<std::int64_t> local;
  const bool matrix = tensor.shape.size() == 2;
  const std::int64_t columns = matrix ? tensor.shape[1] : tensor.elements();
  const std::int64_t width = matrix ? columns / cut.tp : columns;
  for (std::int64_t row = 0; row < (matrix ? tensor.shape[0] : 1); ++row) {
    for (std::int64_t column = 0; column < width; ++column) {
      if (matrix || tp == 0) local.push_back(row * columns + (matrix ? tp * width : 0) + column);
    }
  }
  const auto count = static_cast<std::int64_t>(local.size());
  const std::int64_t per = (count + cut.dp - 1) / cut.dp;
  const std::int64_t begin = std::min(dp * per, count);
  const std::int64_t end = std::min(begin + per, count);
  return {local.begin() + begin, local.begin() + end};
}

}  // namespace

std::vector<CheckpointTensor> toy_tensors() {
  return {{"table", {7, 12}}, {"norm", {13}}, {"wide", {5, 24}}, {"one", {1}}};
}

float toy_value(std::int64_t step, Quantity quantity, const std::string& tensor,
                std::int64_t element) {
  const std::size_t name = tensor.size() * 7 + static_cast<unsigned char>(tensor.front()) % 7;
  return static_cast<float>(step * 100000 + static_cast<std::int64_t>(quantity) * 10000 +
                            static_cast<std::int64_t>(name) * 100) +
         static_cast<float>(element) / 1024.0F;
}

engine::Manifest save_toy(engine::Storage& storage, const std::filesystem::path& root,
                          std::int64_t step, const Cut& cut, const std::string& run,
                          const std::vector<std::string>& past, const std::string& written_at) {
  engine::Manifest manifest;
  manifest.generation = engine::generation_name(step, run);
  manifest.written_at = written_at;
  manifest.lineage = past;
  manifest.mesh = "ddp dp " + std::to_string(cut.dp) + " tp " + std::to_string(cut.tp) + " pp 1";
  manifest.config = {{"model.layers", "1"}};
  manifest.state.step = step;
  manifest.quantities.assign(std::begin(kAll), std::end(kAll));
  manifest.tensors = toy_tensors();
  const std::filesystem::path folder = root / manifest.generation;
  storage.make_folder(folder);
  for (int rank = 0; rank < cut.ranks(); ++rank) {
    std::vector<engine::ShardPart> parts;
    std::vector<std::vector<float>> values;
    for (const Quantity quantity : kAll) {
      for (const CheckpointTensor& tensor : manifest.tensors) {
        engine::ShardPart part{tensor.name, quantity, {}, {}};
        std::vector<float>& of = values.emplace_back();
        for (const std::int64_t element : own_elements(tensor, cut, rank)) {
          engine::append_run(part.extents, element, 1);
          of.push_back(toy_value(step, quantity, tensor.name, element));
        }
        if (!of.empty()) parts.push_back(std::move(part));
        if (of.empty()) values.pop_back();
      }
    }
    for (std::size_t i = 0; i < parts.size(); ++i) parts[i].values.push_back(values[i]);
    manifest.files.push_back(
        engine::write_shard(storage, folder, engine::shard_name(rank), parts, {}));
  }
  engine::publish(storage, root, manifest);
  return manifest;
}

bool holds(const engine::CheckpointReader& reader, std::int64_t step) {
  for (const Quantity quantity : kAll) {
    for (const CheckpointTensor& tensor : toy_tensors()) {
      std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
      reader.read(quantity, tensor.name, 0, values);
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (values[i] != toy_value(step, quantity, tensor.name, static_cast<std::int64_t>(i))) {
          return false;
        }
      }
    }
  }
  return true;
}

}  // namespace nqd::testing

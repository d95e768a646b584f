#include "engine/checkpoint/compare.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <utility>

namespace nqd::engine {
namespace {

constexpr std::int64_t kAtATime = 1 << 18;  // elements

using Values = std::map<std::string, std::string>;

Values values_of(const Manifest& manifest) {
  Values values = manifest.config;
  // How the run is spread changes nothing that is saved.
  std::erase_if(values, [](const auto& entry) {
    return entry.first.starts_with("parallel.") || entry.first.starts_with("cluster.") ||
           entry.first.starts_with("checkpoint.");
  });
  const RunState& state = manifest.state;
  values["data.digest"] = manifest.data_digest;
  values["state.step"] = std::to_string(state.step);
  values["state.skipped_steps"] = std::to_string(state.skipped_steps);
  values["state.data_offset"] = std::to_string(state.data_offset);
  values["state.loss_scale"] = std::to_string(state.loss_scale);
  return values;
}

std::vector<ValueDifference> compare_values(const Manifest& a, const Manifest& b) {
  const Values of_a = values_of(a);
  const Values of_b = values_of(b);
  Values keys = of_a;
  keys.insert(of_b.begin(), of_b.end());
  std::vector<ValueDifference> found;
  const auto value_in = [](const Values& values, const std::string& key) {
    const auto entry = values.find(key);
    return entry == values.end() ? std::string("nothing") : entry->second;
  };
  for (const auto& [key, value] : keys) {
    ValueDifference difference{key, value_in(of_a, key), value_in(of_b, key)};
    if (difference.a != difference.b) found.push_back(std::move(difference));
  }
  return found;
}

TensorDifference compare_tensor(const CheckpointReader& a, const CheckpointReader& b,
                                Quantity quantity, const CheckpointTensor& tensor) {
  TensorDifference found{tensor.name, quantity, 0, 0, 0, ""};
  std::vector<float> of_a;
  std::vector<float> of_b;
  double squares = 0;
  double norm = 0;
  for (std::int64_t begin = 0; begin < tensor.elements(); begin += kAtATime) {
    const auto count = static_cast<std::size_t>(std::min(kAtATime, tensor.elements() - begin));
    of_a.resize(count);
    of_b.resize(count);
    a.read(quantity, tensor.name, begin, of_a);
    b.read(quantity, tensor.name, begin, of_b);
    for (std::size_t i = 0; i < count; ++i) {
      norm += static_cast<double>(of_a[i]) * of_a[i];
      if (std::bit_cast<std::uint32_t>(of_a[i]) == std::bit_cast<std::uint32_t>(of_b[i])) continue;
      ++found.elements;
      const double apart = std::abs(static_cast<double>(of_a[i]) - of_b[i]);
      // A NaN stays.
      if (!(apart <= found.largest))
        found.largest = std::isnan(found.largest) ? found.largest : apart;
      squares += apart * apart;
    }
  }
  found.relative_norm = squares > 0 ? std::sqrt(squares / norm) : 0;
  return found;
}

}  // namespace

CheckpointDifferences compare_generations(const CheckpointReader& a, const CheckpointReader& b) {
  CheckpointDifferences found;
  found.values = compare_values(a.manifest(), b.manifest());
  std::map<std::string, CheckpointTensor> left;
  for (const CheckpointTensor& tensor : b.manifest().tensors) left[tensor.name] = tensor;
  const auto& quantities = b.manifest().quantities;
  for (const CheckpointTensor& tensor : a.manifest().tensors) {
    const auto other = left.find(tensor.name);
    const bool both = other != left.end() && other->second.shape == tensor.shape;
    if (both) left.erase(other);
    for (const Quantity quantity : a.manifest().quantities) {
      if (!both || std::find(quantities.begin(), quantities.end(), quantity) == quantities.end()) {
        found.tensors.push_back({tensor.name, quantity, tensor.elements(), 0, 0, "a"});
        continue;
      }
      TensorDifference difference = compare_tensor(a, b, quantity, tensor);
      if (difference.elements > 0) found.tensors.push_back(std::move(difference));
    }
  }
  for (const auto& [name, tensor] : left) {
    found.tensors.push_back({name, Quantity::kWeights, tensor.elements(), 0, 0, "b"});
  }
  return found;
}

}  // namespace nqd::engine

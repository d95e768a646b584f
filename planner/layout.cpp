#include "planner/layout.h"

#include <cmath>
#include <utility>

namespace nqd::planner {
namespace {

using Shape = std::vector<std::int64_t>;

// Adds tensors of one unit; `decay` follows from the rank, so a caller cannot get it wrong.
class UnitBuilder {
 public:
  UnitBuilder(std::vector<TensorSpec>& out, std::int64_t unit, std::string prefix)
      : out_(out), unit_(unit), prefix_(std::move(prefix)) {}

  void add(const std::string& name, const Shape& shape, bool split_tp) {
    out_.push_back({prefix_ + name, shape, unit_, shape.size() > 1, split_tp});
  }
  void add_norm(const std::string& name, std::int64_t hidden) {
    add(name + ".weight", {hidden}, false);
    add(name + ".bias", {hidden}, false);
  }

 private:
  std::vector<TensorSpec>& out_;
  std::int64_t unit_;
  std::string prefix_;
};

void add_layer(const ModelSpec& model, std::int64_t layer, std::vector<TensorSpec>& out) {
  const std::int64_t h = model.hidden;
  const std::int64_t f = model.ffn_hidden;
  UnitBuilder unit(out, 1 + layer, "layers." + std::to_string(layer) + ".");
  unit.add_norm("norm1", h);
  unit.add("attention.qkv.weight", {3 * h, h}, true);
  unit.add("attention.qkv.bias", {3 * h}, true);
  unit.add("attention.proj.weight", {h, h}, true);
  // A row-parallel product is summed over tp before its bias is added once: every rank keeps all of
  // the bias.
  unit.add("attention.proj.bias", {h}, false);
  unit.add_norm("norm2", h);
  unit.add("mlp.fc.weight", {f, h}, true);
  unit.add("mlp.fc.bias", {f}, true);
  unit.add("mlp.proj.weight", {h, f}, true);
  unit.add("mlp.proj.bias", {h}, false);
}

}  // namespace

std::vector<TensorSpec> parameters(const ModelSpec& model) {
  std::vector<TensorSpec> out;
  if (model.family != "gpt") return out;
  out.reserve(static_cast<std::size_t>(12 * model.layers + 5));
  UnitBuilder embeddings(out, 0, "");
  embeddings.add("embedding.token", {model.vocab, model.hidden}, true);
  embeddings.add("embedding.position", {model.sequence, model.hidden}, false);
  for (std::int64_t layer = 0; layer < model.layers; ++layer) add_layer(model, layer, out);
  UnitBuilder last(out, model.layers + 1, "");
  last.add_norm("final_norm", model.hidden);
  if (!model.tied_head) last.add("head.weight", {model.vocab, model.hidden}, true);
  return out;
}

std::int64_t parameter_count(const ModelSpec& model) {
  if (model.family != "gpt") return std::llround(model.parameters);
  std::int64_t count = 0;
  for (const TensorSpec& tensor : parameters(model)) count += tensor.elements();
  return count;
}

}  // namespace nqd::planner

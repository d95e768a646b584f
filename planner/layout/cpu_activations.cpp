#include <algorithm>
#include <string>

#include "planner/layout/layout.h"

namespace nqd::planner {
namespace {

using Kind = ActivationSpec::Kind;

// N tokens of one micro-batch; the head-split softmax keeps all T x T probabilities of every head.
struct Extents {
  std::int64_t tokens;
  std::int64_t hidden;
  std::int64_t ffn;
  std::int64_t probabilities;
};

void append_norm(std::vector<ActivationSpec>& out, const std::string& prefix, const Extents& e) {
  out.push_back({prefix + ".output", e.tokens * e.hidden, Kind::kActivation});
  out.push_back({prefix + ".mean", e.tokens, Kind::kActivation});
  out.push_back({prefix + ".rstd", e.tokens, Kind::kActivation});
}

void append_layer(std::vector<ActivationSpec>& out, const std::string& prefix, const Extents& e) {
  append_norm(out, prefix + ".norm1", e);
  out.push_back({prefix + ".attention.qkv", e.tokens * 3 * e.hidden, Kind::kActivation});
  out.push_back({prefix + ".attention.probabilities", e.probabilities, Kind::kActivation});
  out.push_back({prefix + ".attention.output", e.tokens * e.hidden, Kind::kActivation});
  out.push_back({prefix + ".attention.residual", e.tokens * e.hidden, Kind::kActivation});
  append_norm(out, prefix + ".norm2", e);
  out.push_back({prefix + ".mlp.fc", e.tokens * e.ffn, Kind::kActivation});
  out.push_back({prefix + ".mlp.gelu", e.tokens * e.ffn, Kind::kActivation});
  out.push_back({prefix + ".mlp.residual", e.tokens * e.hidden, Kind::kActivation});
}

}  // namespace

std::vector<ActivationSpec> cpu_activations(const ModelSpec& model, std::int64_t micro_batch_size) {
  const Extents e{
      .tokens = micro_batch_size * model.sequence,
      .hidden = model.hidden,
      .ffn = model.ffn_hidden,
      .probabilities = micro_batch_size * model.heads * model.sequence * model.sequence,
  };
  std::vector<ActivationSpec> out;
  // The two int32 inputs are kept for backward; an element is 4 bytes like all others.
  out.push_back({"input.tokens", e.tokens, Kind::kActivation});
  out.push_back({"input.targets", e.tokens, Kind::kActivation});
  out.push_back({"embedding.output", e.tokens * e.hidden, Kind::kActivation});
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    append_layer(out, "layers." + std::to_string(layer), e);
  }
  append_norm(out, "final_norm", e);
  // Forward turns the logits into probabilities and backward into their gradient, all in place.
  out.push_back({"logits", e.tokens * model.vocab, Kind::kLogits});
  // One set of gradient buffers serves every layer.
  out.push_back({"gradient.residual", e.tokens * e.hidden, Kind::kActivationGradient});
  out.push_back({"gradient.branch", e.tokens * e.hidden, Kind::kActivationGradient});
  out.push_back(
      {"gradient.wide", e.tokens * std::max(3 * e.hidden, e.ffn), Kind::kActivationGradient});
  out.push_back({"attention.scratch", model.sequence * model.sequence, Kind::kWorkspace});
  return out;
}

}  // namespace nqd::planner

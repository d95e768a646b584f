#include "engine/models/gpt.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <string_view>

#include "base/error.h"
#include "collectives/shared/shared_buffer.h"
#include "engine/cpu/attention.h"
#include "engine/cpu/embedding.h"
#include "engine/cpu/gelu.h"
#include "engine/cpu/layernorm.h"
#include "engine/cpu/linear.h"
#include "engine/cpu/softmax_cross_entropy.h"
#include "engine/philox.h"

namespace nqd::engine {
namespace {

using ActivationKind = planner::ActivationSpec::Kind;

MemoryTag tag_of(ActivationKind kind) {
  switch (kind) {
    case ActivationKind::kActivation:
      return MemoryTag::kActivations;
    case ActivationKind::kActivationGradient:
      return MemoryTag::kActivationGradients;
    case ActivationKind::kLogits:
      return MemoryTag::kLogits;
    case ActivationKind::kWorkspace:
      return MemoryTag::kWorkspace;
  }
  return MemoryTag::kWorkspace;
}

// The tensors of planner::cpu_activations(), allocated once.
class ActivationStore {
 public:
  ActivationStore(const planner::ModelSpec& model, std::int64_t micro_batch_size,
                  MemoryLedger& ledger) {
    for (const auto& spec : planner::cpu_activations(model, micro_batch_size)) {
      buffers_.emplace(spec.name, Buffer(&ledger, tag_of(spec.kind),
                                         static_cast<std::size_t>(spec.elements) * sizeof(float)));
    }
  }
  template <typename T = float>
  T* get(const std::string& name) {
    return buffers_.at(name).as<T>();
  }

 private:
  std::map<std::string, Buffer> buffers_;
};

struct NormActivations {
  float *output, *mean, *rstd;
  NormActivations(ActivationStore& store, const std::string& prefix)
      : output(store.get(prefix + ".output")),
        mean(store.get(prefix + ".mean")),
        rstd(store.get(prefix + ".rstd")) {}
};

struct LayerActivations {
  NormActivations norm1;
  float *qkv, *probabilities, *attention, *attention_residual;
  NormActivations norm2;
  float *fc, *gelu, *mlp_residual;
  LayerActivations(ActivationStore& store, const std::string& prefix)
      : norm1(store, prefix + ".norm1"),
        qkv(store.get(prefix + ".attention.qkv")),
        probabilities(store.get(prefix + ".attention.probabilities")),
        attention(store.get(prefix + ".attention.output")),
        attention_residual(store.get(prefix + ".attention.residual")),
        norm2(store, prefix + ".norm2"),
        fc(store.get(prefix + ".mlp.fc")),
        gelu(store.get(prefix + ".mlp.gelu")),
        mlp_residual(store.get(prefix + ".mlp.residual")) {}
};

// Flat offsets of a weight and the bias that follows it.
struct AffineOffsets {
  std::int64_t weight, bias;
};

struct LayerOffsets {
  AffineOffsets norm1, qkv, attention_proj, norm2, fc, mlp_proj;
};

using OffsetsByName = std::map<std::string, std::int64_t>;

AffineOffsets affine(const OffsetsByName& offsets, const std::string& prefix) {
  return {offsets.at(prefix + ".weight"), offsets.at(prefix + ".bias")};
}

LayerOffsets layer_offsets(const OffsetsByName& offsets, const std::string& prefix) {
  return {
      .norm1 = affine(offsets, prefix + ".norm1"),
      .qkv = affine(offsets, prefix + ".attention.qkv"),
      .attention_proj = affine(offsets, prefix + ".attention.proj"),
      .norm2 = affine(offsets, prefix + ".norm2"),
      .fc = affine(offsets, prefix + ".mlp.fc"),
      .mlp_proj = affine(offsets, prefix + ".mlp.proj"),
  };
}

void fill_normal(std::span<float> out, std::uint64_t seed, const std::string& name, double sigma) {
  const std::uint64_t stream = stream_of(name);
  for (std::size_t begin = 0; begin < out.size(); begin += 4) {
    const std::array<float, 4> block = normal_block(seed, stream, begin / 4);
    for (std::size_t i = begin; i < std::min(begin + 4, out.size()); ++i) {
      out[i] = static_cast<float>(sigma) * block[i - begin];
    }
  }
}

std::int64_t total_elements(const std::vector<ParameterView>& views) {
  return views.empty() ? 0 : views.back().offset + views.back().spec.elements();
}

std::vector<ParameterView> lay_out(const planner::ModelSpec& model) {
  std::vector<ParameterView> views;
  std::int64_t offset = 0;
  for (auto& spec : planner::parameters(model)) {
    const std::int64_t elements = spec.elements();
    views.push_back({std::move(spec), offset});
    offset += elements;
  }
  return views;
}

}  // namespace

struct Gpt::Impl {
  Impl(const planner::ModelSpec& spec, std::int64_t micro_batch_size, MemoryLedger& ledger);

  void check_and_keep_input(std::span<const std::int32_t> new_tokens,
                            std::span<const std::int32_t> new_targets);
  void forward_layer(std::int64_t layer);
  void backward_layer(std::int64_t layer, const std::function<void(const AffineOffsets&)>& ready);
  void backward_head(float loss_scale);

  const float* weight(std::int64_t offset) const { return weights.as<float>() + offset; }
  float* gradient(std::int64_t offset) { return gradients.as<float>() + offset; }
  const float* layer_input(std::int64_t layer) const {
    return layer == 0 ? embedding : layers[static_cast<std::size_t>(layer - 1)].mlp_residual;
  }

  void norm_forward(const NormActivations& out, const float* in, const AffineOffsets& at) {
    cpu::layernorm_forward(out.output, out.mean, out.rstd, in, weight(at.weight), weight(at.bias),
                           rows, model.hidden);
  }
  // Adds into d_residual.
  void norm_backward(const float* d_out, const float* in, const NormActivations& kept,
                     const AffineOffsets& at) {
    cpu::layernorm_backward(d_residual, gradient(at.weight), gradient(at.bias), d_out, in,
                            weight(at.weight), kept.mean, kept.rstd, rows, model.hidden);
  }
  void affine_forward(float* out, const float* in, const AffineOffsets& at, const float* residual,
                      std::int64_t in_width, std::int64_t out_width) {
    cpu::linear_forward(out, in, weight(at.weight), weight(at.bias), residual, rows, in_width,
                        out_width);
  }
  void affine_backward(float* d_in, const float* d_out, const float* in, const AffineOffsets& at,
                       std::int64_t in_width, std::int64_t out_width) {
    cpu::linear_backward(d_in, gradient(at.weight), gradient(at.bias), d_out, in, weight(at.weight),
                         rows, in_width, out_width);
  }

  planner::ModelSpec model;
  std::int64_t batch;
  std::int64_t rows;  // tokens of a micro-batch
  cpu::AttentionShape attention_shape;
  std::vector<ParameterView> views;
  Buffer weights;
  collectives::SharedBuffer gradients;
  ActivationStore store;

  std::vector<LayerOffsets> offsets;
  std::int64_t position_offset = 0;
  AffineOffsets final_norm_offsets{};
  std::int64_t head_offset = 0;  // 0, the token embedding, when the head is tied

  std::int32_t *tokens, *targets;
  float* embedding;
  std::vector<LayerActivations> layers;
  NormActivations final_norm;
  float* logits;
  float *d_residual, *d_branch, *d_wide, *scratch;
};

Gpt::Impl::Impl(const planner::ModelSpec& spec, std::int64_t micro_batch_size, MemoryLedger& ledger)
    : model(spec),
      batch(micro_batch_size),
      rows(micro_batch_size * spec.sequence),
      attention_shape{micro_batch_size, spec.sequence, spec.heads, spec.hidden},
      views(lay_out(spec)),
      weights(&ledger, MemoryTag::kWeights,
              static_cast<std::size_t>(total_elements(views)) * sizeof(float)),
      gradients(&ledger, MemoryTag::kGradients, weights.size()),
      store(spec, micro_batch_size, ledger),
      tokens(store.get<std::int32_t>("input.tokens")),
      targets(store.get<std::int32_t>("input.targets")),
      embedding(store.get("embedding.output")),
      final_norm(store, "final_norm"),
      logits(store.get("logits")),
      d_residual(store.get("gradient.residual")),
      d_branch(store.get("gradient.branch")),
      d_wide(store.get("gradient.wide")),
      scratch(store.get("attention.scratch")) {
  OffsetsByName by_name;
  for (const ParameterView& view : views) by_name.emplace(view.spec.name, view.offset);
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    const std::string prefix = "layers." + std::to_string(layer);
    offsets.push_back(layer_offsets(by_name, prefix));
    layers.emplace_back(store, prefix);
  }
  position_offset = by_name.at("embedding.position");
  final_norm_offsets = affine(by_name, "final_norm");
  head_offset = model.tied_head ? 0 : by_name.at("head.weight");
}

void Gpt::Impl::check_and_keep_input(std::span<const std::int32_t> new_tokens,
                                     std::span<const std::int32_t> new_targets) {
  const auto expected = static_cast<std::size_t>(rows);
  if (new_tokens.size() != expected || new_targets.size() != expected) {
    throw Error(ExitCode::kUsage, "NQD2041",
                "a micro-batch of " + std::to_string(new_tokens.size()) + " tokens and " +
                    std::to_string(new_targets.size()) +
                    " targets was given to a model that takes " + std::to_string(rows),
                "Give micro_batch_size x sequence values of both.");
  }
  const auto check = [this](std::int32_t value, std::int32_t lowest, std::string_view what) {
    if (value >= lowest && value < model.vocab) return;
    throw Error(ExitCode::kUsage, "NQD2040",
                std::string(what) + " " + std::to_string(value) +
                    " is outside the model's vocabulary of " + std::to_string(model.vocab),
                "Set model.vocab to at least the vocabulary of the token file.");
  };
  for (std::int32_t token : new_tokens) check(token, 0, "token");
  for (std::int32_t target : new_targets) check(target, cpu::kMaskedTarget, "target");
  std::copy(new_tokens.begin(), new_tokens.end(), tokens);
  std::copy(new_targets.begin(), new_targets.end(), targets);
}

void Gpt::Impl::forward_layer(std::int64_t layer) {
  const auto index = static_cast<std::size_t>(layer);
  const LayerOffsets& at = offsets[index];
  const LayerActivations& a = layers[index];
  const std::int64_t h = model.hidden;
  const std::int64_t f = model.ffn_hidden;
  const float* x = layer_input(layer);

  norm_forward(a.norm1, x, at.norm1);
  affine_forward(a.qkv, a.norm1.output, at.qkv, nullptr, h, 3 * h);
  cpu::attention_forward(a.attention, a.probabilities, a.qkv, attention_shape);
  affine_forward(a.attention_residual, a.attention, at.attention_proj, x, h, h);

  norm_forward(a.norm2, a.attention_residual, at.norm2);
  affine_forward(a.fc, a.norm2.output, at.fc, nullptr, h, f);
  cpu::gelu_forward(a.gelu, a.fc, rows * f);
  affine_forward(a.mlp_residual, a.gelu, at.mlp_proj, a.attention_residual, f, h);
}

// d_residual holds the gradient of the layer's output on entry and of its input on return.
void Gpt::Impl::backward_layer(std::int64_t layer,
                               const std::function<void(const AffineOffsets&)>& ready) {
  const auto index = static_cast<std::size_t>(layer);
  const LayerOffsets& at = offsets[index];
  const LayerActivations& a = layers[index];
  const std::int64_t h = model.hidden;
  const std::int64_t f = model.ffn_hidden;

  affine_backward(d_wide, d_residual, a.gelu, at.mlp_proj, f, h);
  ready(at.mlp_proj);
  cpu::gelu_backward_in_place(d_wide, a.fc, rows * f);
  affine_backward(d_branch, d_wide, a.norm2.output, at.fc, h, f);
  ready(at.fc);
  norm_backward(d_branch, a.attention_residual, a.norm2, at.norm2);
  ready(at.norm2);

  affine_backward(d_branch, d_residual, a.attention, at.attention_proj, h, h);
  ready(at.attention_proj);
  cpu::attention_backward(d_wide, scratch, d_branch, a.probabilities, a.qkv, attention_shape);
  affine_backward(d_branch, d_wide, a.norm1.output, at.qkv, h, 3 * h);
  ready(at.qkv);
  norm_backward(d_branch, layer_input(layer), a.norm1, at.norm1);
  ready(at.norm1);
}

// Leaves the gradient of the final norm's output in d_branch.
void Gpt::Impl::backward_head(float loss_scale) {
  cpu::softmax_cross_entropy_backward(logits, targets, loss_scale, rows, model.vocab);
  cpu::linear_backward(d_branch, gradient(head_offset), static_cast<float*>(nullptr), logits,
                       final_norm.output, weight(head_offset), rows, model.hidden, model.vocab);
}

Gpt::Gpt(const planner::ModelSpec& model, std::int64_t micro_batch_size, MemoryLedger& ledger)
    : impl_(std::make_shared<Impl>(model, micro_batch_size, ledger)) {}

void Gpt::initialize(std::uint64_t seed) {
  constexpr double kSigma = 0.02;
  const double residual_sigma = kSigma / std::sqrt(2.0 * static_cast<double>(impl_->model.layers));
  for (const ParameterView& view : impl_->views) {
    const std::string& name = view.spec.name;
    const std::span<float> out = weights().subspan(static_cast<std::size_t>(view.offset),
                                                   static_cast<std::size_t>(view.spec.elements()));
    if (view.spec.shape.size() == 1) {
      std::fill(out.begin(), out.end(), name.ends_with(".weight") ? 1.0F : 0.0F);
    } else {
      fill_normal(out, seed, name, name.ends_with(".proj.weight") ? residual_sigma : kSigma);
    }
  }
}

std::span<float> Gpt::weights() {
  return {impl_->weights.as<float>(), impl_->weights.size() / sizeof(float)};
}
std::span<const float> Gpt::weights() const {
  return {impl_->weights.as<float>(), impl_->weights.size() / sizeof(float)};
}
std::span<float> Gpt::gradients() {
  return {impl_->gradients.as<float>(), impl_->gradients.size() / sizeof(float)};
}
const std::vector<ParameterView>& Gpt::parameter_views() const { return impl_->views; }

double Gpt::forward(std::span<const std::int32_t> tokens, std::span<const std::int32_t> targets) {
  Impl& m = *impl_;
  m.check_and_keep_input(tokens, targets);
  cpu::embedding_forward(m.embedding, m.tokens, m.weight(0), m.weight(m.position_offset), m.batch,
                         m.model.sequence, m.model.hidden);
  for (std::int64_t layer = 0; layer < m.model.layers; ++layer) m.forward_layer(layer);
  m.norm_forward(m.final_norm, m.layer_input(m.model.layers), m.final_norm_offsets);
  cpu::linear_forward(m.logits, m.final_norm.output, m.weight(m.head_offset),
                      static_cast<const float*>(nullptr), static_cast<const float*>(nullptr),
                      m.rows, m.model.hidden, m.model.vocab);
  return cpu::softmax_cross_entropy_forward(m.logits, m.targets, m.rows, m.model.vocab);
}

void Gpt::backward(float loss_scale, const std::function<void(std::int64_t ready_from)>& on_ready) {
  Impl& m = *impl_;
  const auto ready_from = [&on_ready](std::int64_t offset) {
    if (on_ready) on_ready(offset);
  };
  m.backward_head(loss_scale);
  if (!m.model.tied_head) ready_from(m.head_offset);

  std::fill_n(m.d_residual, m.rows * m.model.hidden, 0.0F);
  m.norm_backward(m.d_branch, m.layer_input(m.model.layers), m.final_norm, m.final_norm_offsets);
  ready_from(m.final_norm_offsets.weight);
  for (std::int64_t layer = m.model.layers - 1; layer >= 0; --layer) {
    m.backward_layer(layer, [&](const AffineOffsets& at) { ready_from(at.weight); });
  }
  cpu::embedding_backward(m.gradient(0), m.gradient(m.position_offset), m.d_residual, m.tokens,
                          m.batch, m.model.sequence, m.model.hidden);
  ready_from(0);
}

void Gpt::zero_gradients() { std::fill(gradients().begin(), gradients().end(), 0.0F); }

}  // namespace nqd::engine

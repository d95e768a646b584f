#include "engine/models/transformer/transformer_chunk.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/error.h"
#include "engine/cpu/rotary.h"
#include "engine/models/transformer/classifier.h"
#include "engine/models/transformer/decoder_layer.h"
#include "engine/models/transformer/embeddings.h"
#include "engine/models/transformer/head.h"
#include "engine/models/transformer/input_projection.h"
#include "engine/models/transformer/rotary_frequencies.h"

namespace nqd::engine {

using planner::LocalUnit;
using planner::UnitRole;

class TransformerChunk::Impl {
 public:
  Impl(std::vector<LocalUnit> all_units, Device& of) : units(std::move(all_units)), device(of) {}
  virtual ~Impl() = default;

  virtual const RankShape& shape() const = 0;
  virtual std::int32_t* tokens(std::int64_t slot) = 0;
  virtual float* features(std::int64_t slot) = 0;
  virtual std::int32_t* targets(std::int64_t slot) = 0;
  virtual std::span<std::byte> input(std::int64_t slot) = 0;
  virtual std::span<std::byte> output(std::int64_t slot) = 0;
  virtual std::span<std::byte> gradient(std::int64_t index) = 0;
  virtual void forward(int unit, const UnitWeights& weights, const Pass& pass) = 0;
  virtual void recompute(int unit, const UnitWeights& weights, const Pass& pass) = 0;
  virtual void backward_input(int unit, const UnitWeights& weights, const Pass& pass) = 0;
  virtual void backward_weight(int unit, const UnitGradients& gradients, const Pass& pass) = 0;
  virtual UnitRange recompute_before(int unit) const = 0;
  virtual std::span<const double> row_losses() const = 0;

  std::vector<LocalUnit> units;
  Device& device;
  std::vector<std::int64_t> unmasked;  // targets, by slot
};

namespace {

// Where the logits' table is.
enum class TableUnit : std::uint8_t { kOwnUnit, kHead, kTokenEmbedding };

template <typename S>
class TypedChunk final : public TransformerChunk::Impl {
 public:
  TypedChunk(const planner::Config& config, const TransformerOptions& options, std::int64_t chunk,
             const TensorParallel& tp, ActivationArena& arena, Device& on)
      : Impl(planner::chunk_units(config, chunk, tp.rank), on),
        products_(
            on.make_products(rank_shape(config, options, tp).slices, Workspace<S>(arena).slices)),
        context_(make_context(config, options, tp, arena, on, *products_)),
        buffers_(config, chunk, units, arena),
        group_(planner::recompute_group(config.train)),
        recompute_(config.train.recompute),
        token_(context_, drops_out_first(config)),
        position_(context_) {
    for (const LocalUnit& unit : units) {
      if (unit.role == UnitRole::kLayer) layers_.emplace_back(unit, context_);
      if (unit.role == UnitRole::kLayer && layers_.size() == 1) first_layer_ = unit.layer;
      if (unit.role == UnitRole::kInputProjection) {
        input_ = std::make_unique<InputProjection<S>>(unit, context_, drops_out_first(config));
      }
      if (unit.role == UnitRole::kHead) add_head(unit);
      if (unit.role == UnitRole::kTied) table_ = TableUnit::kOwnUnit;
    }
    if (context_.shape.rotary) fill_rotary_table(config.model);
    unmasked.resize(static_cast<std::size_t>(buffers_.slots()));
  }

  const RankShape& shape() const override { return context_.shape; }
  std::int32_t* tokens(std::int64_t slot) override { return buffers_.tokens(slot); }
  float* features(std::int64_t slot) override { return buffers_.features(slot); }
  std::int32_t* targets(std::int64_t slot) override { return buffers_.head(slot).targets; }
  std::span<std::byte> input(std::int64_t slot) override {
    return residual_bytes(buffers_.residual(slot, 0));
  }
  std::span<std::byte> output(std::int64_t slot) override {
    return residual_bytes(buffers_.output(slot));
  }
  std::span<std::byte> gradient(std::int64_t index) override {
    return residual_bytes(buffers_.gradient(index));
  }

  void forward(int unit, const UnitWeights& weights, const Pass& pass) override;
  void recompute(int unit, const UnitWeights& weights, const Pass& pass) override;
  void backward_input(int unit, const UnitWeights& weights, const Pass& pass) override;
  void backward_weight(int unit, const UnitGradients& gradients, const Pass& pass) override;
  UnitRange recompute_before(int unit) const override;
  std::span<const double> row_losses() const override {
    return {context_.workspace.row_losses, static_cast<std::size_t>(context_.shape.target_rows)};
  }

 private:
  // Where the first embedding is the last one too, it drops out.
  static bool drops_out_first(const planner::Config& config) {
    return config.model.positions != planner::Positions::kLearned;
  }
  static UnitContext<S> make_context(const planner::Config& config,
                                     const TransformerOptions& options, const TensorParallel& tp,
                                     ActivationArena& arena, Device& on, Products& products) {
    const RankShape shape = rank_shape(config, options, tp);
    const TensorGroup group(tp, shape.slices.canonical, on);
    return {shape, group, Workspace<S>(arena), on, on.kernels<S>(), products};
  }

  void fill_rotary_table(const planner::ModelSpec& model) {
    const RankShape& s = context_.shape;
    const std::int64_t half = s.sequence * s.head_width / 2;
    std::vector<float> table(static_cast<std::size_t>(2 * half));
    cpu::rotary_table(table.data(), table.data() + half, s.sequence,
                      rotary_frequencies(model, s.head_width));
    device.upload(context_.workspace.rotary, table.data(), table.size() * sizeof(float));
  }
  void add_head(const LocalUnit& unit) {
    final_norm_ = std::make_unique<FinalNorm<S>>(unit, context_);
    head_weight_ = offset_of(unit, "head.weight");
    if (context_.shape.features > 0) {
      output_layer_ = std::make_unique<Classifier<S>>(unit, context_);
    } else {
      output_layer_ = std::make_unique<Logits<S>>(context_);
    }
    table_ = head_weight_ >= 0 ? TableUnit::kHead : TableUnit::kTokenEmbedding;
  }

  std::span<std::byte> residual_bytes(S* data) const {
    if (data == nullptr) return {};
    return std::as_writable_bytes(
        std::span(data, static_cast<std::size_t>(context_.shape.residual_elements())));
  }
  const LocalUnit& unit_at(int unit) const { return units[static_cast<std::size_t>(unit)]; }
  std::int64_t layer_of(int unit) const { return unit_at(unit).layer - first_layer_; }
  DecoderLayer<S>& layer_at(std::int64_t layer) { return layers_[static_cast<std::size_t>(layer)]; }
  bool ends_group(std::int64_t layer) const {
    return group_ > 0 && (layer % group_ == group_ - 1 || layer + 1 == buffers_.layer_count());
  }
  // The gradient that the embeddings' backward_weight reads.
  const S* embedding_gradient(const Pass& pass) const {
    const S* const stash = buffers_.embedding_stash(pass.stash);
    return stash != nullptr ? stash : buffers_.gradient(pass.gradient);
  }
  void stash_embedding(const Pass& pass) const {
    S* const stash = buffers_.embedding_stash(pass.stash);
    if (stash == nullptr) return;
    device.copy(stash, buffers_.gradient(pass.gradient),
                static_cast<std::size_t>(context_.shape.residual_elements()) * sizeof(S));
  }
  static const S* typed(const std::byte* weights) { return reinterpret_cast<const S*>(weights); }
  const S* head_table(const UnitWeights& weights) const {
    return table_ == TableUnit::kHead ? typed(weights.own) + head_weight_ : typed(weights.table);
  }

  std::unique_ptr<Products> products_;
  UnitContext<S> context_;
  ChunkBuffers<S> buffers_;
  std::int64_t group_;
  planner::Recompute recompute_;
  TokenEmbedding<S> token_;
  PositionEmbedding<S> position_;
  std::unique_ptr<InputProjection<S>> input_;
  std::vector<DecoderLayer<S>> layers_;
  std::int64_t first_layer_ = 0;
  std::unique_ptr<FinalNorm<S>> final_norm_;
  std::unique_ptr<OutputLayer<S>> output_layer_;
  std::int64_t head_weight_ = -1;
  TableUnit table_ = TableUnit::kHead;
};

template <typename S>
void TypedChunk<S>::forward(int unit, const UnitWeights& weights, const Pass& pass) {
  const S* const own = typed(weights.own);
  switch (unit_at(unit).role) {
    case UnitRole::kTokenEmbedding:
      return token_.forward(buffers_.residual(pass.slot, 0), own, buffers_.tokens(pass.slot), pass);
    case UnitRole::kInputProjection:
      return input_->forward(buffers_.residual(pass.slot, 0), own, buffers_.features(pass.slot),
                             pass);
    case UnitRole::kPositionEmbedding:
      return position_.forward(buffers_.residual(pass.slot, 0), own, pass);
    case UnitRole::kLayer: {
      const std::int64_t layer = layer_of(unit);
      return layer_at(layer).forward(own, buffers_.forward(pass.slot, layer),
                                     buffers_.residual(pass.slot, layer + 1), pass);
    }
    case UnitRole::kHead:
      final_norm_->forward(own, buffers_.head(pass.slot));
      if (table_ != TableUnit::kOwnUnit) {
        output_layer_->forward(head_table(weights), buffers_.head(pass.slot));
      }
      return;
    case UnitRole::kTied:
      return output_layer_->forward(own, buffers_.head(pass.slot));
  }
}

template <typename S>
UnitRange TypedChunk<S>::recompute_before(int unit) const {
  if (unit_at(unit).role != UnitRole::kLayer) return {};
  const std::int64_t layer = layer_of(unit);
  if (!ends_group(layer)) return {};
  return {unit - static_cast<int>(layer % group_), unit + 1};
}

template <typename S>
void TypedChunk<S>::recompute(int unit, const UnitWeights& weights, const Pass& pass) {
  const std::int64_t layer = layer_of(unit);
  S* const output = ends_group(layer) ? nullptr : buffers_.residual(pass.slot, layer + 1);
  layer_at(layer).forward(typed(weights.own), buffers_.backward(pass.slot, pass.stash, layer),
                          output, pass);
}

template <typename S>
void TypedChunk<S>::backward_input(int unit, const UnitWeights& weights, const Pass& pass) {
  const S* const own = typed(weights.own);
  S* const stream = buffers_.gradient(pass.gradient);
  switch (unit_at(unit).role) {
    case UnitRole::kTied:
      return output_layer_->backward_input(own, buffers_.head(pass.slot), pass);
    case UnitRole::kHead:
      if (table_ != TableUnit::kOwnUnit) {
        output_layer_->backward_input(head_table(weights), buffers_.head(pass.slot), pass);
      }
      return final_norm_->backward_input(own, buffers_.head(pass.slot),
                                         buffers_.head_replicated(pass.stash), stream);
    case UnitRole::kLayer: {
      const std::int64_t layer = layer_of(unit);
      return layer_at(layer).backward_input(own, buffers_.backward(pass.slot, pass.stash, layer),
                                            buffers_.stash(pass.stash, layer), stream,
                                            recompute_ == planner::Recompute::kSelective, pass);
    }
    case UnitRole::kPositionEmbedding:
      return position_.backward_input(stream, pass);
    case UnitRole::kTokenEmbedding:
      token_.backward_input(stream, pass);
      return stash_embedding(pass);
    case UnitRole::kInputProjection:
      input_->backward_input(stream, pass);
      return stash_embedding(pass);
  }
}

template <typename S>
void TypedChunk<S>::backward_weight(int unit, const UnitGradients& gradients, const Pass& pass) {
  switch (unit_at(unit).role) {
    case UnitRole::kTied:
      return output_layer_->backward_weight(gradients.own, buffers_.head(pass.slot));
    case UnitRole::kHead:
      if (table_ == TableUnit::kHead) {
        output_layer_->backward_weight(gradients.own + head_weight_, buffers_.head(pass.slot));
      } else if (table_ == TableUnit::kTokenEmbedding) {
        output_layer_->backward_weight(gradients.table, buffers_.head(pass.slot));
      }
      return final_norm_->backward_weight(gradients.own, buffers_.head_replicated(pass.stash));
    case UnitRole::kLayer: {
      const std::int64_t layer = layer_of(unit);
      return layer_at(layer).backward_weight(gradients,
                                             buffers_.backward(pass.slot, pass.stash, layer),
                                             buffers_.stash(pass.stash, layer));
    }
    case UnitRole::kPositionEmbedding:
      return position_.backward_weight(gradients.own, embedding_gradient(pass));
    case UnitRole::kTokenEmbedding:
      return token_.backward_weight(gradients.own, embedding_gradient(pass),
                                    buffers_.tokens(pass.slot));
    case UnitRole::kInputProjection:
      return input_->backward_weight(gradients.own, embedding_gradient(pass),
                                     buffers_.features(pass.slot));
  }
}

std::unique_ptr<TransformerChunk::Impl> make_chunk(const planner::Config& config,
                                                   const TransformerOptions& options,
                                                   std::int64_t chunk, const TensorParallel& tp,
                                                   ActivationArena& arena, Device& device) {
  const auto make = [&]<typename S>(S) -> std::unique_ptr<TransformerChunk::Impl> {
    return std::make_unique<TypedChunk<S>>(config, options, chunk, tp, arena, device);
  };
  switch (config.train.precision) {
    case planner::Precision::kBFloat16:
      return make(BFloat16{});
    case planner::Precision::kFloat16:
      return make(Float16{});
    case planner::Precision::kFloat32:
    case planner::Precision::kFp8:
      break;
  }
  return make(float{});
}

void check_count(std::size_t given, std::int64_t taken, std::string_view what) {
  if (static_cast<std::int64_t>(given) == taken) return;
  throw Error(ExitCode::kUsage, "NQD2041",
              "a micro-batch of " + std::to_string(given) + " " + std::string(what) +
                  " was given to a model that takes " + std::to_string(taken),
              "Give as many as the model has for micro_batch_size samples.");
}

void check_values(std::span<const std::int32_t> values, std::int32_t lowest, std::int64_t below,
                  std::string_view what) {
  for (const std::int32_t value : values) {
    if (value >= lowest && value < below) continue;
    throw Error(ExitCode::kUsage, "NQD2040",
                std::string(what) + " " + std::to_string(value) +
                    " is outside the model's vocabulary of " + std::to_string(below),
                "Set model.vocab (of a time-series encoder, model.output_features) to at least "
                "what the data has.");
  }
}

}  // namespace

TransformerChunk::TransformerChunk(const planner::Config& config, const TransformerOptions& options,
                                   std::int64_t chunk, const TensorParallel& tp,
                                   ActivationArena& arena, Device& device)
    : impl_(make_chunk(config, options, chunk, tp, arena, device)) {}

TransformerChunk::~TransformerChunk() = default;
TransformerChunk::TransformerChunk(TransformerChunk&&) noexcept = default;
TransformerChunk& TransformerChunk::operator=(TransformerChunk&&) noexcept = default;

const std::vector<LocalUnit>& TransformerChunk::units() const { return impl_->units; }

void TransformerChunk::load_inputs(std::int64_t slot, std::span<const std::byte> inputs) {
  const RankShape& shape = impl_->shape();
  const bool tokens = shape.features == 0;
  const std::int64_t numbers = shape.rows * (tokens ? 1 : shape.features);
  check_count(inputs.size(), numbers * 4, "bytes");
  void* const to = tokens ? static_cast<void*>(impl_->tokens(slot)) : impl_->features(slot);
  if (tokens) {
    check_values({reinterpret_cast<const std::int32_t*>(inputs.data()),
                  static_cast<std::size_t>(shape.rows)},
                 0, shape.vocabulary, "token");
  }
  impl_->device.upload(to, inputs.data(), inputs.size());
}

void TransformerChunk::load_targets(std::int64_t slot, std::span<const std::int32_t> targets) {
  const RankShape& shape = impl_->shape();
  check_count(targets.size(), shape.target_rows, "targets");
  check_values(targets, cpu::kNoTarget, shape.vocabulary, "target");
  impl_->device.upload(impl_->targets(slot), targets.data(), targets.size_bytes());
  impl_->unmasked[static_cast<std::size_t>(slot)] = std::count_if(
      targets.begin(), targets.end(), [](std::int32_t target) { return target != cpu::kNoTarget; });
}

std::span<std::byte> TransformerChunk::input(std::int64_t slot) { return impl_->input(slot); }
std::span<std::byte> TransformerChunk::output(std::int64_t slot) { return impl_->output(slot); }
std::span<std::byte> TransformerChunk::gradient(std::int64_t index) {
  return impl_->gradient(index);
}

void TransformerChunk::forward(int unit, const UnitWeights& weights, const Pass& pass) {
  impl_->forward(unit, weights, pass);
}
UnitRange TransformerChunk::recompute_before(int unit) const {
  return impl_->recompute_before(unit);
}
void TransformerChunk::recompute(int unit, const UnitWeights& weights, const Pass& pass) {
  impl_->recompute(unit, weights, pass);
}
void TransformerChunk::backward_input(int unit, const UnitWeights& weights, const Pass& pass) {
  impl_->backward_input(unit, weights, pass);
}
void TransformerChunk::backward_weight(int unit, const UnitGradients& gradients, const Pass& pass) {
  impl_->backward_weight(unit, gradients, pass);
}

std::span<const double> TransformerChunk::row_losses() const { return impl_->row_losses(); }
std::int64_t TransformerChunk::unmasked_targets(std::int64_t slot) const {
  return impl_->unmasked[static_cast<std::size_t>(slot)];
}

}  // namespace nqd::engine

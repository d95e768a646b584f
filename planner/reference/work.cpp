#include "planner/reference/work.h"

#include <algorithm>
#include <string_view>

#include "collectives/canonical/tree.h"
#include "planner/layout/activation_buffers.h"
#include "planner/layout/state_shape.h"
#include "planner/models/dimensions.h"

namespace nqd::planner {
namespace {

using Calls = std::vector<KernelCall>;

void append(Calls& to, const Calls& more) { to.insert(to.end(), more.begin(), more.end()); }

class UnitCalls {
 public:
  UnitCalls(const Config& config, const LocalUnit& unit)
      : config_(config),
        model_(config.model),
        unit_(unit),
        d_(dimensions_of(config.model)),
        tp_(config.parallel.tp),
        rows_(config.train.micro_batch_size * config.model.sequence),
        stream_rows_(residual_rows(config)),
        h_(d_.hidden),
        q_(d_.queries / tp_),
        keys_(d_.keys / tp_),
        f_(d_.ffn / tp_) {}

  UnitWork work() const {
    switch (unit_.role) {
      case UnitRole::kTokenEmbedding:
        return embedding(rows_);
      case UnitRole::kInputProjection:
        return input_projection();
      case UnitRole::kPositionEmbedding:
        return embedding(stream_rows_);
      case UnitRole::kLayer:
        return layer();
      case UnitRole::kHead: {
        UnitWork work = final_norm();
        if (has_own_logits()) work.add(d_.classifies() ? classes() : logits());
        return work;
      }
      case UnitRole::kTied:
        return logits();
    }
    return {};
  }

 private:
  bool rms() const { return model_.norm == Norm::kRmsNorm; }
  bool is_float32() const { return config_.train.precision == Precision::kFloat32; }
  bool has(std::string_view suffix) const {
    return std::any_of(unit_.tensors.begin(), unit_.tensors.end(), [&](const LocalTensor& tensor) {
      return std::string_view(tensor.full.name).ends_with(suffix);
    });
  }
  // The head's use of a tied table is a unit of its own, but for fast numerics on one stage.
  bool has_own_logits() const {
    if (has("head.weight")) return true;
    return !tied_ends_apart(config_) && config_.numerics.mode == collectives::Numerics::kFast;
  }

  KernelCall pass(Kernel kernel, std::int64_t rows, std::int64_t columns) const {
    return {kernel, rows, columns, 0, 1};
  }
  KernelCall on_stream(Kernel kernel) const { return pass(kernel, stream_rows_, h_); }
  KernelCall norm(Kernel layer_norm, Kernel rms_norm) const {
    return on_stream(rms() ? rms_norm : layer_norm);
  }
  KernelCall attention(Kernel kernel) const {
    return {kernel, config_.train.micro_batch_size * d_.heads / tp_, model_.sequence, d_.qk_dim, 1};
  }
  Calls rotary() const {
    if (model_.positions != Positions::kRotary) return {};
    return {pass(Kernel::kRotary, rows_, q_ + keys_)};
  }

  UnitWork embedding(std::int64_t rows) const {
    UnitWork work;
    work.forward.push_back(pass(Kernel::kLookup, rows, h_));
    work.backward_weight.push_back(pass(Kernel::kLookupBackward, rows, h_));
    drop_out(work);
    return work;
  }
  // With learned positions their unit, the second, drops out.
  void drop_out(UnitWork& work) const {
    const bool drops =
        unit_.role == UnitRole::kPositionEmbedding || model_.positions != Positions::kLearned;
    if (!config_.train.dropout || !drops) return;
    work.forward.push_back(on_stream(Kernel::kDropout));
    work.backward_input.push_back(on_stream(Kernel::kDropout));
  }

  UnitWork input_projection() const {
    const std::int64_t features = d_.patch_elements;
    UnitWork work;
    work.forward = {on_stream(Kernel::kCopy),
                    {Kernel::kForwardProduct, stream_rows_, h_, features, 1}};
    work.backward_weight = {{Kernel::kWeightProduct, h_, features, rows_, 1},
                            pass(Kernel::kColumnSums, rows_, h_)};
    drop_out(work);
    return work;
  }

  // x · Wᵀ of `widths` columns side by side.
  void column_forward(Calls& calls, std::initializer_list<std::int64_t> widths,
                      std::string_view bias) const {
    for (const std::int64_t width : widths) {
      if (has(bias)) calls.push_back(pass(Kernel::kCopy, rows_, width));
      calls.push_back({Kernel::kForwardProduct, rows_, width, h_, 1});
    }
  }
  void row_forward(Calls& calls, std::int64_t width) const {
    const bool added_in_place = is_float32() && tp_ == 1 && !config_.train.dropout &&
                                config_.numerics.mode == collectives::Numerics::kFast;
    calls.push_back(
        {added_in_place ? Kernel::kForwardProduct : Kernel::kSlicedProduct, rows_, h_, width, 1});
    calls.push_back(on_stream(Kernel::kResidual));
    if (config_.train.dropout) calls.push_back(on_stream(Kernel::kDropout));
  }

  Calls layer_forward() const {
    Calls calls = {norm(Kernel::kLayerNorm, Kernel::kRmsNorm)};
    if (d_.kv_heads == d_.heads) {
      column_forward(calls, {q_ + 2 * keys_}, ".attention.qkv.bias");
    } else {
      column_forward(calls, {q_, 2 * keys_}, ".attention.q.bias");
    }
    append(calls, rotary());
    append(calls, attention_forward());
    row_forward(calls, q_);
    calls.push_back(norm(Kernel::kLayerNorm, Kernel::kRmsNorm));
    column_forward(calls, {d_.gates * f_}, ".mlp.fc.bias");
    calls.push_back(pass(d_.gates == 1 ? Kernel::kGelu : Kernel::kSwiglu, rows_, f_));
    row_forward(calls, f_);
    return calls;
  }

  Calls attention_forward() const {
    Calls calls = {attention(Kernel::kAttention)};
    append(calls, dropped_scores());
    return calls;
  }
  // A mask is drawn for every score that a query sees.
  Calls dropped_scores() const {
    if (!config_.train.dropout) return {};
    const std::int64_t heads = config_.train.micro_batch_size * d_.heads / tp_;
    const std::int64_t s = model_.sequence;
    return {pass(Kernel::kDropout, heads, model_.causal ? s * (s + 1) / 2 : s * s)};
  }

  // The gradient at a branch's end, on its way to the product's input.
  void branch_end(Calls& calls, std::int64_t width, std::string_view bias) const {
    const bool split = config_.parallel.sequence_parallel && tp_ > 1;
    if (config_.train.dropout) {
      calls.push_back(on_stream(Kernel::kDropout));
    } else if (!split) {
      calls.push_back(on_stream(Kernel::kCopy));
    }
    if (has(bias)) calls.push_back(on_stream(Kernel::kColumnSums));
    calls.push_back({Kernel::kInputProduct, rows_, width, h_, 1});
  }
  void branch_start(Calls& calls, std::int64_t width) const {
    calls.push_back({Kernel::kStackedProduct, rows_, h_, width, 1});
    norm_backward(calls);
  }
  void norm_backward(Calls& calls) const {
    if (!is_float32()) calls.push_back(on_stream(Kernel::kNarrow));
    calls.push_back(norm(Kernel::kLayerNormGradient, Kernel::kRmsNormGradient));
    calls.push_back(norm(Kernel::kLayerNormBackward, Kernel::kRmsNormBackward));
  }

  Calls layer_backward_input() const {
    Calls calls;
    branch_end(calls, f_, ".mlp.proj.bias");
    calls.push_back(
        pass(d_.gates == 1 ? Kernel::kGeluBackward : Kernel::kSwigluBackward, rows_, f_));
    branch_start(calls, d_.gates * f_);
    if (config_.train.recompute == Recompute::kSelective) append(calls, attention_forward());
    branch_end(calls, q_, ".attention.proj.bias");
    calls.push_back(attention(Kernel::kAttentionBackward));
    append(calls, dropped_scores());
    append(calls, rotary());
    branch_start(calls, q_ + 2 * keys_);
    return calls;
  }

  void weight(Calls& calls, std::int64_t out, std::int64_t in, std::string_view bias) const {
    calls.push_back({Kernel::kWeightProduct, out, in, rows_, 1});
    if (!bias.empty() && has(bias)) calls.push_back(pass(Kernel::kColumnSums, rows_, out));
  }
  Calls layer_backward_weight() const {
    Calls calls;
    weight(calls, h_, f_, "");
    weight(calls, d_.gates * f_, h_, ".mlp.fc.bias");
    weight(calls, h_, q_, "");
    if (d_.kv_heads == d_.heads) {
      weight(calls, q_ + 2 * keys_, h_, ".attention.qkv.bias");
    } else {
      weight(calls, q_, h_, ".attention.q.bias");
      weight(calls, 2 * keys_, h_, ".attention.kv.bias");
    }
    return calls;
  }
  UnitWork layer() const {
    return {layer_forward(), layer_backward_input(), layer_backward_weight()};
  }

  UnitWork final_norm() const {
    UnitWork work;
    work.forward.push_back(norm(Kernel::kLayerNorm, Kernel::kRmsNorm));
    norm_backward(work.backward_input);
    return work;
  }
  UnitWork logits() const {
    const std::int64_t v = std::min(vocabulary_rows(config_), model_.vocab);
    UnitWork work;
    work.forward = {{Kernel::kForwardProduct, rows_, v, h_, 1}, pass(Kernel::kSoftmax, rows_, v)};
    work.backward_input = {pass(Kernel::kSoftmaxBackward, rows_, v),
                           {Kernel::kStackedProduct, rows_, h_, v, 1}};
    work.backward_weight = {{Kernel::kWeightProduct, v, h_, rows_, 1}};
    return work;
  }

  // The mean over time steps adds rows up as the sum of a column does; its gradient copies them.
  UnitWork classes() const {
    const std::int64_t samples = config_.train.micro_batch_size;
    const std::int64_t k = d_.outputs;
    UnitWork work;
    work.forward = {pass(Kernel::kColumnSums, rows_, h_),
                    {Kernel::kForwardProduct, samples, k, h_, 1},
                    pass(Kernel::kSoftmax, samples, k)};
    work.backward_input = {pass(Kernel::kSoftmaxBackward, samples, k),
                           {Kernel::kInputProduct, samples, h_, k, 1},
                           on_stream(Kernel::kCopy)};
    work.backward_weight = {{Kernel::kWeightProduct, k, h_, samples, 1},
                            pass(Kernel::kColumnSums, samples, k)};
    return work;
  }

  const Config& config_;
  const ModelSpec& model_;
  const LocalUnit& unit_;
  const Dimensions d_;
  const std::int64_t tp_;
  const std::int64_t rows_;
  const std::int64_t stream_rows_;
  const std::int64_t h_, q_, keys_, f_;
};

// Forward once more of every layer of a chunk, the last product and residual of a group's last
// layer left out.
Calls recomputed(const Config& config, std::span<const LocalUnit> units) {
  const std::int64_t group = recompute_group(config.train);
  if (group == 0) return {};
  std::int64_t layers = 0;
  for (const LocalUnit& unit : units) layers += unit.role == UnitRole::kLayer ? 1 : 0;
  Calls calls;
  std::int64_t layer = 0;
  for (const LocalUnit& unit : units) {
    if (unit.role != UnitRole::kLayer) continue;
    Calls again = unit_work(config, unit).forward;
    const bool ends_group = layer % group == group - 1 || layer + 1 == layers;
    while (ends_group && again.back().kernel != Kernel::kGelu &&
           again.back().kernel != Kernel::kSwiglu) {
      again.pop_back();
    }
    append(calls, again);
    ++layer;
  }
  return calls;
}

// The share of the micro-batches that begin a sum rather than add to what is there.
double fresh_share(const StateShape& shape) {
  const bool in_place = !shape.canonical() && shape.gradient_shards() == 1;
  return in_place ? 1 / static_cast<double>(shape.micro_batches) : 1;
}

// That share of the weight products sets what the others add to.
Calls with_fresh(const Calls& calls, double share) {
  Calls all;
  for (const KernelCall& call : calls) {
    const bool product = call.kernel == Kernel::kWeightProduct;
    if (!product || share < 1) all.push_back(call);
    if (!product) continue;
    KernelCall fresh = call;
    fresh.kernel = Kernel::kFreshProduct;
    fresh.calls = share * call.calls;
    if (share < 1) all.back().calls -= fresh.calls;
    all.push_back(fresh);
  }
  return all;
}

// What the store does for a micro-batch's gradient of a unit.
Calls gradient_calls(const Config& config, const StateShape& shape, const LocalUnit& unit) {
  const std::int64_t padded = shape.padded(unit.elements);
  std::int64_t filled = padded;
  if (unit.role == UnitRole::kLayer) {
    filled -= unit.elements;
    for (const LocalTensor& tensor : unit.tensors) {
      if (tensor.shape.size() == 1) filled += tensor.elements();
    }
  }
  const double share = fresh_share(shape);
  Calls calls = {{Kernel::kFill, 1, filled, 0, share}};
  const Additions additions = additions_of(config);
  const auto more = static_cast<double>(additions.all - additions.first);
  if (share < 1 || more == 0) return calls;
  const bool sharded = shape.gradient_shards() > 1;
  calls.push_back({Kernel::kAdd, 1, sharded ? shape.part(unit.elements) : padded, 0,
                   more / static_cast<double>(shape.micro_batches)});
  return calls;
}

}  // namespace

void UnitWork::add(const UnitWork& other) {
  append(forward, other.forward);
  append(backward_input, other.backward_input);
  append(backward_weight, other.backward_weight);
}

UnitWork unit_work(const Config& config, const LocalUnit& unit) {
  return UnitCalls(config, unit).work();
}

UnitWork chunk_work(const Config& config, std::span<const LocalUnit> units) {
  const StateShape shape = state_shape(config);
  UnitWork work;
  for (const LocalUnit& unit : units) {
    UnitWork of_unit = unit_work(config, unit);
    if (unit.role == UnitRole::kLayer) {
      of_unit.backward_weight = with_fresh(of_unit.backward_weight, fresh_share(shape));
    }
    work.add(of_unit);
    append(work.backward_weight, gradient_calls(config, shape, unit));
  }
  append(work.backward_input, recomputed(config, units));
  return work;
}

Additions additions_of(const Config& config) {
  const StateShape shape = state_shape(config);
  const AdditionOrder order = addition_order(shape, 0);
  Additions additions{static_cast<std::int64_t>(order.range.size()), 1};
  if (!shape.canonical()) return additions;
  additions.first = 0;
  std::vector<collectives::IndexRange> held;
  for (std::size_t index = order.range.begin; index < order.range.end; ++index) {
    collectives::IndexRange node{index, index + 1};
    bool merged = false;
    while (!held.empty() && collectives::are_siblings(held.back(), node, order.total)) {
      node.begin = held.back().begin;
      held.pop_back();
      merged = true;
    }
    additions.first += merged ? 0 : 1;
    held.push_back(node);
  }
  return additions;
}

std::vector<KernelCall> update_work(const Config& config, std::span<const LocalUnit> units) {
  const StateShape shape = state_shape(config);
  const bool adamw = config.train.optimizer.kind == OptimizerKind::kAdamW;
  // Replicas of one sum each count a share of its squares.
  const std::int64_t copies = shape.engine == Engine::kZero1 ? 1 : shape.replicas();
  std::vector<KernelCall> calls;
  for (const LocalUnit& unit : units) {
    const std::int64_t part = shape.part(unit.elements);
    if (!unit.holds_weights) {
      calls.push_back({Kernel::kAdd, 1, part, 0, 1});
      continue;
    }
    calls.push_back({Kernel::kSquares, 1, part / copies, 0, 1});
    calls.push_back({adamw ? Kernel::kAdamw : Kernel::kSgd, 1, part, 0, 1});
    if (shape.has_master()) calls.push_back({Kernel::kNarrow, 1, part, 0, 1});
    if (shape.ema) calls.push_back({Kernel::kAdd, 1, part, 0, 1});
  }
  return calls;
}

}  // namespace nqd::planner

#include <algorithm>

#include "planner/layout/layout.h"
#include "planner/models/dimensions.h"
#include "planner/models/families.h"

namespace nqd::planner {
namespace {

using Dropped = SavedTensor::Dropped;

ParameterCounts count_parameters(const ModelSpec& model, const Dimensions& d, UnitKind kind) {
  ParameterCounts counts;
  for (const TensorSpec& tensor : unit_tensors(model, kind)) {
    const auto elements = static_cast<double>(tensor.elements());
    switch (tensor.split) {
      case TensorSplit::kReplicated:
        counts.replicated += elements;
        break;
      case TensorSplit::kTensor:
        counts.tensor += elements;
        break;
      case TensorSplit::kVocabulary:
        counts.vocabulary += elements;
        counts.vocabulary_rows = static_cast<double>(tensor.shape[0]);
        break;
      case TensorSplit::kKeyValue:
        counts.kv += elements;
        counts.kv_heads = static_cast<double>(d.kv_heads);
        break;
      case TensorSplit::kExpert:
        counts.expert += elements;
        break;
    }
  }
  return counts;
}

// One block from its parts, in forward order. All sizes are of one sample.
class BlockBuilder {
 public:
  BlockBuilder(const ModelSpec& model, const TrainSpec& train, const Dimensions& d)
      : model_(model),
        train_(train),
        d_(d),
        n_(static_cast<double>(d.tokens)),
        h_(static_cast<double>(d.hidden)) {}

  BlockShape embedding();
  BlockShape layer(bool moe);
  BlockShape mtp();
  BlockShape head();

 private:
  void column(double k, double n) {
    block_.matmuls.push_back({.rows = n_, .k = k, .n = n, .split = Split::kTensor});
  }
  void row(double k, double n) {
    block_.matmuls.push_back(
        {.rows = n_, .k = k, .n = n, .split = Split::kTensor, .split_k = true});
  }
  void replicated(double k, double n) { block_.matmuls.push_back({.rows = n_, .k = k, .n = n}); }
  void pass(const char* name, double forward, double backward, Split split) {
    block_.pointwise.push_back({name, forward, backward, split});
  }
  void save(const char* name, double elements, Split split, double element_bytes = 2,
            Dropped dropped = Dropped::kByFull) {
    block_.saved.push_back({name, elements, element_bytes, split, dropped});
  }
  void norm(double width, Split split) { pass("norm", 2 * n_ * width, 3 * n_ * width, split); }
  // The end of a branch: bias, dropout and residual.
  void residual(const char* mask) {
    const double width = n_ * h_;
    pass("residual", (train_.dropout ? 3.5 : 3) * width, 3 * width, Split::kSequence);
    if (train_.dropout) save(mask, width, Split::kSequence, 1);
  }
  void attention();
  void query_projection();
  void latent_projections();
  void attention_core();
  void mlp(const char* hidden, const char* activated, double ffn);
  void activation(double rows_by_ffn, Split split, const char* hidden, const char* activated);
  void shared_gate();
  void experts();
  void logits();
  // Matrix products, forward, by what they put out: the first, third, fifth … are kept.
  void product(double elements, Split split) {
    products_.push_back({"product", elements, 2, split});
  }
  void attention_products();
  void mlp_products(double rows, double ffn, Split hidden, Split out);
  void keep_by_operation(bool moe);

  const ModelSpec& model_;
  const TrainSpec& train_;
  const Dimensions& d_;
  double n_;
  double h_;
  BlockShape block_;
  std::vector<SavedTensor> products_;
};

void BlockBuilder::query_projection() {
  const auto qkv = static_cast<double>(d_.queries + d_.keys + d_.values);
  column(h_, qkv);
  if (model_.qk_norm) {
    const auto queries = static_cast<double>(d_.queries);
    const auto keys = static_cast<double>(d_.keys);
    norm(queries, Split::kTensor);
    norm(keys, Split::kKeyValue);
    save("attention.query_projected", n_ * queries, Split::kTensor);
    save("attention.key_projected", n_ * keys, Split::kKeyValue);
  }
  pass("attention.layout", 2 * n_ * qkv, 2 * n_ * qkv, Split::kTensor);
}

void BlockBuilder::latent_projections() {
  const MlaSpec& mla = model_.mla;
  const auto q_rank = static_cast<double>(mla.q_lora_rank);
  const auto kv_rank = static_cast<double>(mla.kv_lora_rank);
  const auto rope = static_cast<double>(mla.qk_rope_head_dim);
  const auto queries = static_cast<double>(d_.queries);
  if (q_rank > 0) {
    replicated(h_, q_rank);
    norm(q_rank, Split::kSequence);
    save("attention.q_compressed", n_ * q_rank, Split::kSequence);
    save("attention.q_normalised", n_ * q_rank, Split::kSequence);
    column(q_rank, queries);
  } else {
    column(h_, queries);
  }
  replicated(h_, kv_rank + rope);
  norm(kv_rank, Split::kSequence);
  save("attention.kv_compressed", n_ * (kv_rank + rope), Split::kSequence);
  save("attention.kv_normalised", n_ * kv_rank, Split::kSequence);
  column(kv_rank, static_cast<double>(d_.heads * (mla.qk_nope_head_dim + d_.v_dim)));
  const double qkv = queries + static_cast<double>(d_.keys + d_.values);
  pass("attention.layout", 2 * n_ * qkv, 2 * n_ * qkv, Split::kTensor);
}

void BlockBuilder::attention_core() {
  const auto heads = static_cast<double>(d_.heads);
  block_.attention = {.heads = heads,
                      .kv_heads = static_cast<double>(d_.kv_heads),
                      .qk_dim = static_cast<double>(d_.qk_dim),
                      .v_dim = static_cast<double>(d_.v_dim),
                      .rows = n_,
                      .causal = model_.causal};
  save("attention.query", n_ * static_cast<double>(d_.queries), Split::kTensor);
  save("attention.key", n_ * static_cast<double>(d_.keys), Split::kKeyValue);
  save("attention.value", n_ * static_cast<double>(d_.values), Split::kKeyValue);
  const auto context = n_ * static_cast<double>(d_.context);
  if (train_.attention == Attention::kFlash) {
    save("attention.softmax_statistics", n_ * heads, Split::kTensor, 4, Dropped::kBySelective);
    if (!train_.fused_kernels) save("attention.context_copy", context, Split::kTensor);
  } else {
    const double scores = n_ * n_ * heads;
    save("attention.softmax", scores, Split::kTensor, 2, Dropped::kBySelective);
    if (train_.dropout) {
      save("attention.mask", scores, Split::kTensor, 1, Dropped::kBySelective);
      save("attention.dropped", scores, Split::kTensor, 2, Dropped::kBySelective);
    }
  }
  save("attention.context", context, Split::kTensor);
}

void BlockBuilder::attention() {
  norm(h_, Split::kSequence);
  save("norm1.input", n_ * h_, Split::kSequence, 2, Dropped::kNever);
  save("attention.input", n_ * h_, Split::kSequence);
  if (d_.mla) {
    latent_projections();
  } else {
    query_projection();
  }
  attention_core();
  row(static_cast<double>(d_.context), h_);
  residual("attention.residual_mask");
  block_.tensor_sums += 1;
}

void BlockBuilder::activation(double rows_by_ffn, Split split, const char* hidden,
                              const char* activated) {
  if (d_.gates == 2) {
    pass("gate", 3 * rows_by_ffn, 5 * rows_by_ffn, split);
    if (!train_.fused_kernels) save("mlp.activated_gate", rows_by_ffn, split);
  } else {
    pass("gelu", 2 * rows_by_ffn, 3 * rows_by_ffn, split);
  }
  save(hidden, static_cast<double>(d_.gates) * rows_by_ffn, split);
  save(activated, rows_by_ffn, split);
}

void BlockBuilder::mlp(const char* hidden, const char* activated, double ffn) {
  column(h_, static_cast<double>(d_.gates) * ffn);
  activation(n_ * ffn, Split::kTensor, hidden, activated);
  row(ffn, h_);
}

// One number a token; its gradient needs the output that it scales.
void BlockBuilder::shared_gate() {
  block_.matmuls.push_back({.rows = n_, .k = h_, .n = 1, .split = Split::kSequence});
  pass("shared.gate", 2 * n_ * h_, 4 * n_ * h_, Split::kSequence);
  save("shared.gate", n_, Split::kSequence);
  save("shared.output", n_ * h_, Split::kSequence);
}

// Routing, permutation to experts and back, their products, and the shared experts.
void BlockBuilder::experts() {
  const MoeSpec& moe = model_.moe;
  const auto count = static_cast<double>(moe.experts);
  const auto f = static_cast<double>(d_.expert_ffn);
  const auto top = static_cast<double>(moe.experts_per_token);
  const double capacity = moe.capacity_factor;
  // Beyond the capacity copies are dropped; buffers hold the whole capacity.
  const double computed = n_ * top * (capacity > 0 ? std::min(capacity, 1.0) : 1);
  const double held = n_ * top * (capacity > 0 ? capacity : 1);
  block_.matmuls.push_back({.rows = n_, .k = h_, .n = count, .split = Split::kSequence});
  pass("router", 3 * n_ * count, 3 * n_ * count, Split::kSequence);
  save("router.logits", n_ * count, Split::kSequence, 4);
  save("router.probabilities", n_ * count, Split::kSequence, 4);
  pass("permute", 2 * (n_ + computed) * h_, 2 * (n_ + computed) * h_, Split::kExpert);
  const auto expert_product = [&](double k, double n, bool split_k) {
    block_.matmuls.push_back({.rows = computed,
                              .k = k,
                              .n = n,
                              .split = Split::kExpert,
                              .split_k = split_k,
                              .groups = count});
  };
  expert_product(h_, static_cast<double>(d_.gates) * f, false);
  expert_product(f, h_, true);
  save("experts.input", held * h_, Split::kExpert);
  activation(held * f, Split::kTensor, "experts.hidden", "experts.activated");
  save("experts.output", held * h_, Split::kExpert);
  if (moe.shared_expert_hidden > 0) {
    mlp("shared.hidden", "shared.activated", static_cast<double>(moe.shared_expert_hidden));
    if (moe.shared_gate) shared_gate();
  }
  block_.all_to_all_elements = computed * h_;
}

void BlockBuilder::attention_products() {
  const auto queries = n_ * static_cast<double>(d_.queries);
  const auto keys = n_ * static_cast<double>(d_.keys);
  const auto values = n_ * static_cast<double>(d_.values);
  if (d_.mla) {
    const MlaSpec& mla = model_.mla;
    if (mla.q_lora_rank > 0) product(n_ * static_cast<double>(mla.q_lora_rank), Split::kSequence);
    product(queries, Split::kTensor);
    product(n_ * static_cast<double>(mla.kv_lora_rank + mla.qk_rope_head_dim), Split::kSequence);
    product(n_ * static_cast<double>(d_.heads * (mla.qk_nope_head_dim + d_.v_dim)), Split::kTensor);
  } else if (model_.positions == Positions::kRotary) {
    product(queries, Split::kTensor);
    product(keys, Split::kKeyValue);
    product(values, Split::kKeyValue);
  } else {
    product(queries + keys + values, Split::kTensor);
  }
  product(n_ * h_, Split::kSequence);
}

void BlockBuilder::mlp_products(double rows, double ffn, Split hidden, Split out) {
  for (std::int64_t gate = 0; gate < d_.gates; ++gate) product(rows * ffn, hidden);
  product(rows * h_, out);
}

void BlockBuilder::keep_by_operation(bool moe) {
  attention_products();
  if (moe) {
    const double rows = block_.all_to_all_elements / h_;
    mlp_products(rows, static_cast<double>(d_.expert_ffn), Split::kTensor, Split::kExpert);
    const auto shared = static_cast<double>(model_.moe.shared_expert_hidden);
    if (shared > 0) mlp_products(n_, shared, Split::kTensor, Split::kSequence);
  } else {
    mlp_products(n_, static_cast<double>(d_.ffn), Split::kTensor, Split::kSequence);
  }
  for (const SavedTensor& tensor : block_.saved) {
    const bool attention = tensor.name == "attention.context";
    if (tensor.dropped == Dropped::kNever || attention) block_.saved_by_operation.push_back(tensor);
  }
  for (std::size_t i = 0; i < products_.size(); i += 2) {
    block_.saved_by_operation.push_back(products_[i]);
  }
}

BlockShape BlockBuilder::layer(bool moe) {
  block_.name = moe ? "moe" : "dense";
  block_.parameters = count_parameters(model_, d_, moe ? UnitKind::kMoe : UnitKind::kDense);
  attention();
  norm(h_, Split::kSequence);
  save("norm2.input", n_ * h_, Split::kSequence);
  save("mlp.input", n_ * h_, Split::kSequence);
  if (moe) {
    experts();
  } else {
    mlp("mlp.hidden", "mlp.activated", static_cast<double>(d_.ffn));
  }
  residual("mlp.residual_mask");
  block_.tensor_sums += 1;
  block_.output_elements = n_ * h_;
  keep_by_operation(moe);
  return block_;
}

BlockShape BlockBuilder::embedding() {
  block_.name = "embedding";
  block_.parameters = count_parameters(model_, d_, UnitKind::kEmbedding);
  if (d_.patch_elements > 0) {
    const auto patch = static_cast<double>(d_.patch_elements);
    replicated(patch, h_);
    save("embedding.input", n_ * patch, Split::kNone, 2, Dropped::kNever);
  } else {
    block_.tensor_sums = 1;
  }
  // A row is read and written; backward reads its gradient and adds to the weights'.
  pass("embedding", (train_.dropout ? 2.5 : 2) * n_ * h_, 3 * n_ * h_, Split::kSequence);
  if (train_.dropout) save("embedding.mask", n_ * h_, Split::kSequence, 1);
  block_.output_elements = n_ * h_;
  return block_;
}

void BlockBuilder::logits() {
  const auto outputs = static_cast<double>(d_.outputs);
  if (d_.patch_elements > 0) {
    const auto rows = static_cast<double>(d_.targets);
    block_.matmuls.push_back({.rows = rows, .k = h_, .n = outputs});
    pass("logits", rows * outputs, rows * outputs, Split::kNone);
    return;
  }
  column(h_, outputs);
  pass("logits", n_ * outputs, n_ * outputs, Split::kTensor);
}

BlockShape BlockBuilder::mtp() {
  layer(d_.moe);
  block_.name = "mtp";
  block_.parameters = count_parameters(model_, d_, UnitKind::kMtp);
  norm(h_, Split::kSequence);
  norm(h_, Split::kSequence);
  norm(h_, Split::kSequence);
  column(2 * h_, h_);
  save("mtp.token", n_ * h_, Split::kSequence);
  save("mtp.joined", 2 * n_ * h_, Split::kSequence);
  save("mtp.final_norm_input", n_ * h_, Split::kSequence);
  save("mtp.head_input", n_ * h_, Split::kSequence);
  logits();
  block_.tensor_sums += 1;
  return block_;
}

BlockShape BlockBuilder::head() {
  block_.name = "head";
  block_.parameters = count_parameters(model_, d_, UnitKind::kHead);
  norm(h_, Split::kSequence);
  save("final_norm.input", n_ * h_, Split::kSequence, 2, Dropped::kNever);
  save("head.input", n_ * h_, Split::kSequence, 2, Dropped::kNever);
  logits();
  return block_;
}

}  // namespace

ModelShape transformer_shape(const ModelSpec& model, const TrainSpec& train) {
  const Dimensions d = dimensions_of(model);
  ModelShape shape;
  shape.known = true;
  shape.rows = static_cast<double>(d.tokens);
  const auto add = [&](BlockShape block, std::int64_t count) -> std::int64_t {
    if (count <= 0) return -1;
    shape.parameters += static_cast<double>(count) * block.parameters.total();
    shape.kinds.push_back(std::move(block));
    const auto kind = static_cast<std::int64_t>(shape.kinds.size()) - 1;
    shape.runs.push_back({kind, count});
    return kind;
  };
  const auto builder = [&] { return BlockBuilder(model, train, d); };
  shape.embedding = add(builder().embedding(), 1);
  add(builder().layer(false), unit_count(model, UnitKind::kDense));
  const std::int64_t moe_layers = unit_count(model, UnitKind::kMoe);
  if (moe_layers > 0) add(builder().layer(true), moe_layers);
  if (model.mtp_layers > 0) shape.mtp = add(builder().mtp(), model.mtp_layers);
  shape.head = add(builder().head(), 1);
  if (d.patch_elements == 0) {
    shape.vocab = static_cast<double>(model.vocab);
    if (model.tied_head) shape.tied_elements = static_cast<double>(model.vocab * d.hidden);
  }
  return shape;
}

}  // namespace nqd::planner

// The tensors of a model, one record each: the planner budgets them and the engine allocates them
// from the same list.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/spec.h"

namespace nqd::planner {

// Which ranks of a replica hold a tensor's parts.
enum class TensorSplit : std::uint8_t {
  kReplicated,  // every tp rank all of it
  kTensor,      // 1/tp each
  kVocabulary,  // ⌈rows/tp⌉ rows each
  kKeyValue,    // 1/min(tp, kv_heads) each
  kExpert,      // 1/(ep·expert_tp) each
};

struct TensorSpec {
  std::string name;                 // "layers.3.attention.qkv.weight"
  std::vector<std::int64_t> shape;  // row-major
  // Gathered together: 0 embeddings, 1 + layer, then the multi-token prediction modules, then the
  // final norm and the head.
  std::int64_t unit = 0;
  bool decay = false;  // weight decay applies (matrices)
  TensorSplit split = TensorSplit::kReplicated;
  std::int64_t elements() const {
    std::int64_t n = 1;
    for (std::int64_t extent : shape) n *= extent;
    return n;
  }
};

// Parameters of a transformer in forward order (linear weights are [out, in]); empty for families
// without layers. For a GPT-2-like decoder:
//   embedding.token [V,h], embedding.position [s,h];
//   per layer: norm1.{weight,bias} [h], attention.qkv.{weight [3h,h], bias [3h]},
//   attention.proj.{weight [h,h], bias [h]}, norm2.{weight,bias} [h],
//   mlp.fc.{weight [f,h], bias [f]}, mlp.proj.{weight [h,f], bias [h]};
//   final_norm.{weight,bias} [h]; head.weight [V,h] only when the head is not tied.
// Grouped queries have attention.q and attention.kv, a gated MLP a weight of [2f,h], RMSNorm no
// bias; MLA and experts as in DeepSeek-V2 (arXiv:2405.04434) and -V3 (arXiv:2412.19437).
std::vector<TensorSpec> parameters(const ModelSpec& model);

// Of a tensor that every tp rank holds: whether its gradient is a sum over the rows of the residual
// stream, of which a rank has a part with sequence parallelism (norms, biases of row-parallel
// products, positions). False for the input projection and the head of an encoder, whose gradients
// every rank computes whole.
bool sums_over_rows(const TensorSpec& tensor);

// The kinds of unit that a transformer has.
enum class UnitKind : std::uint8_t { kEmbedding, kDense, kMoe, kMtp, kHead };
// The tensors of one unit, named without "layers.3." and with unit 0.
std::vector<TensorSpec> unit_tensors(const ModelSpec& model, UnitKind kind);
// Layers of the kind; 1 for embedding and head.
std::int64_t unit_count(const ModelSpec& model, UnitKind kind);

// Σ elements of the model, of every family: GPT-2 124M gives 124,439,808 with V = 50257, s = 1024.
// Family state: as given.
std::int64_t parameter_count(const ModelSpec& model);

}  // namespace nqd::planner

// A model as the work that a device does for it: matrix products, attention, element-wise passes,
// kept activations and weights of each kind of block. Counted tensor by tensor from a ModelSpec;
// the memory model, the time model and the FLOP counts all read it, so that none has a formula of
// its own for a family.
//
// "Of one sample" means one sequence or picture; `rows` are tokens or pixels. Sizes are before any
// division; `Split` says what divides them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/spec.h"

namespace nqd::planner {

// What shares a dimension or a tensor among ranks.
//   kNone      every tp rank holds or computes all of it
//   kTensor    tp ranks hold 1/tp
//   kSequence  tp ranks hold 1/tp with sequence parallelism, else all of it
//   kExpert    what routed experts are given, token copies of full width: expert_tp/tp. (ep ranks
//              only exchange them: with balanced routing each gets as many as it brings. The width
//              inside an expert is 1/expert_tp of that, in all 1/tp, whatever expert_tp is.)
//   kKeyValue  1/min(tp, kv_heads): a kv head is never divided
// Rows (and everything counted by rows) are divided by cp as well.
enum class Split : std::uint8_t { kNone, kTensor, kSequence, kExpert, kKeyValue };

// The ranks that divide a block.
struct Division {
  std::int64_t tp = 1;
  std::int64_t cp = 1;
  std::int64_t ep = 1;
  std::int64_t expert_tp = 0;  // 0 = tp
  bool sequence_parallel = false;
  std::int64_t kv_heads = 0;  // 0 = at least tp
};
Division division_of(const Config& config);
// The part of an activation, pass or product (per sample) that one rank has, cp included. For a
// product of routed experts it is 1/(tp·cp): see kExpert.
double activation_share(Split split, const Division& division);

struct BlockShape;
// Of one sample, what one rank sends to routed experts in one all_to_all, itself included: the
// copies of its own tokens (with sequence parallelism 1/(tp·cp) of all; the ranks that share an
// expert gather theirs afterwards).
double dispatched_elements(const BlockShape& block, const Division& division);

// rows × k · k × n, `count` of them. Forward once; backward makes two products of the same size.
// With split kTensor either k or n is 1/tp on a rank: `split_k` says which.
struct MatmulShape {
  double rows = 0;  // of one sample
  double k = 0;
  double n = 0;
  double count = 1;
  Split split = Split::kNone;
  bool split_k = false;
  // Routed experts (split kExpert): each of `groups` has its own k × n weights and gets rows/groups
  // rows; `rows` counts top_k copies of a token. A rank has groups/ep of them, of width
  // 1/expert_tp, and 1/(tp·cp) of the FLOPs.
  double groups = 1;
};

// Scores and context of one sample. MLA has qk_dim != v_dim.
struct AttentionShape {
  double heads = 0;  // 1/tp on a rank; 0 = the block has no attention
  double kv_heads = 0;
  double qk_dim = 0;
  double v_dim = 0;
  double rows = 0;  // queries of one sample; as many keys
  bool causal = true;
  // 2·rows²·heads·(qk_dim + v_dim), half of it when causal: forward FLOPs of one sample.
  double forward_flops() const {
    return 2 * rows * rows * heads * (qk_dim + v_dim) * (causal ? 0.5 : 1.0);
  }
};

// An element-wise pass: elements of one sample read and written, forward and backward. Bytes are
// elements times those of an activation (a mask is half an element of 2 bytes).
struct Pointwise {
  // "norm", "residual", "attention.layout", "gelu", "gate", "router", "permute", "embedding"; or
  // "logits": one element a logit each way, of which the loss moves many bytes (the stack says how
  // many). Convolutional families: "groupnorm", "swish", "relu", "shortcut".
  std::string name;
  double forward_elements = 0;
  double backward_elements = 0;
  Split split = Split::kNone;
};

// What is kept from forward to backward, of one sample. Norm statistics (8 bytes a row) are left
// out, as in Korthikanti et al. Logits are not among the tensors: their bytes are the runtime's.
struct SavedTensor {
  std::string name;  // "norm1.input", "attention.qkv", "mlp.hidden", "dropout.mask", …
  double elements = 0;
  double element_bytes = 2;  // 2: scales with the precision; 1 and 4: fixed
  Split split = Split::kNone;
  // What recomputation makes it unnecessary: a block's input is always kept.
  enum class Dropped : std::uint8_t { kNever, kByFull, kBySelective } dropped = Dropped::kByFull;
};

// Weights of a block by what shards them; elements.
struct ParameterCounts {
  double replicated = 0;  // on every tp rank
  double tensor = 0;      // 1/tp each
  double kv = 0;          // 1/min(tp, kv_heads) each: key and value projections
  double vocabulary = 0;  // ⌈rows/tp⌉ rows each
  double vocabulary_rows = 0;
  double expert = 0;  // 1/(ep·expert_tp) each
  double kv_heads = 0;
  double total() const { return replicated + tensor + kv + vocabulary + expert; }
  // What is not shared by ep: it is what dp·cp ranks hold copies of. of_rank − expert part.
  double dense_of_rank(std::int64_t tp) const;
  double expert_of_rank(std::int64_t ep, std::int64_t expert_tp) const;
  double of_rank(std::int64_t tp, std::int64_t ep, std::int64_t expert_tp) const;
};

struct BlockShape {
  std::string name;  // "embedding", "dense", "moe", "head", "resblock_64", …
  ParameterCounts parameters;
  std::vector<MatmulShape> matmuls;
  AttentionShape attention;
  std::vector<Pointwise> pointwise;
  std::vector<SavedTensor> saved;
  // What checkpointing by operation keeps instead, as torchtitan's selective policy "op" does
  // (arXiv:2410.06511, section 3.2.1): the block's input, attention's output, and the output of
  // every other matrix product. Empty for blocks that it leaves alone.
  std::vector<SavedTensor> saved_by_operation;
  double output_elements = 0;  // of one sample: what goes to the next block (or stage)
  // Of one sample, one way: tokens · top_k · hidden; 0 = no experts.
  double all_to_all_elements = 0;
  // Forward passes of tp communication, each of rows · hidden elements: attention and MLP make one
  // each, the embedding one. As many backward, where the head's takes the place of the embedding's.
  double tensor_sums = 0;
  double extra_forward_flops = 0;  // of one sample, beyond matmuls and attention (custom blocks)
};

// Consecutive equal blocks.
struct BlockRun {
  std::int64_t kind = 0;  // index into ModelShape::kinds
  std::int64_t count = 0;
};

struct ModelShape {
  std::vector<BlockShape> kinds;
  // In forward order. For transformers: embedding (1), layers (dense, then with experts),
  // multi-token prediction modules, head (1): the layers are what pipeline stages divide; the
  // embedding goes to the first stage, modules and head to the last.
  std::vector<BlockRun> runs;
  std::int64_t embedding = -1;  // kind, -1 = none
  std::int64_t head = -1;       // kind: final norm, output projection and loss
  std::int64_t mtp = -1;        // kind of the multi-token prediction modules
  double rows = 0;              // of one sample
  double vocab = 0;             // logits a row of the head; 0 = none
  double tied_elements = 0;     // embedding elements that the head shares; 0 = untied
  double parameters = 0;        // all, tied counted once
  bool known = false;           // false: family state, only `parameters` holds
};

// Layers of a transformer, without multi-token prediction modules.
std::int64_t layer_count(const ModelShape& shape);

// The shape of a loaded config (attention, dropout and precision decide what is saved). Never
// throws for a config that loaded.
ModelShape model_shape(const ModelSpec& model, const TrainSpec& train);

// FLOPs of one sample, forward: matrix products and attention.
struct SampleFlops {
  double matmul = 0;
  double attention = 0;       // as the model needs it (causal half)
  double attention_full = 0;  // with all scores
  double head = 0;            // part of matmul
};
SampleFlops forward_flops(const ModelShape& shape);

}  // namespace nqd::planner

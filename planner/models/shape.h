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
//   kExpert    routed experts: 1/(ep·expert_tp)
// Rows (and everything counted by rows) are divided by cp as well.
enum class Split : std::uint8_t { kNone, kTensor, kSequence, kExpert };

// rows × k · k × n, `count` of them. Forward once; backward makes two products of the same size.
// With split kTensor either k or n is 1/tp on a rank: `split_k` says which.
struct MatmulShape {
  double rows = 0;  // of one sample
  double k = 0;
  double n = 0;
  double count = 1;
  Split split = Split::kNone;
  bool split_k = false;
  // Routed experts: each of `groups` has its own k × n weights and gets rows·top_k/groups rows.
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
  // 4·rows²·heads·(qk_dim + v_dim)/2, half of it when causal: forward FLOPs of one sample.
  double forward_flops() const {
    return 2 * rows * rows * heads * (qk_dim + v_dim) * (causal ? 0.5 : 1.0);
  }
};

// An element-wise pass: elements of one sample read and written, forward and backward. Bytes are
// elements times those of an activation.
struct Pointwise {
  std::string name;  // "norm", "gelu", "residual", "rotary", "softmax_logits", …
  double forward_elements = 0;
  double backward_elements = 0;
  Split split = Split::kNone;
};

// What is kept from forward to backward, of one sample. `bytes` are for 2-byte activations, `wide`
// counts as 4 bytes whatever the precision is (float32 statistics), masks as they are (1 byte).
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
  double expert = 0;      // 1/(ep·expert_tp) each
  double total() const { return replicated + tensor + expert; }
  double of_rank(std::int64_t tp, std::int64_t ep, std::int64_t expert_tp) const;
};

struct BlockShape {
  std::string name;  // "embedding", "dense", "moe", "head", "resblock_64", …
  ParameterCounts parameters;
  std::vector<MatmulShape> matmuls;
  AttentionShape attention;
  std::vector<Pointwise> pointwise;
  std::vector<SavedTensor> saved;
  double output_elements = 0;  // of one sample: what goes to the next block (or stage)
  double all_to_all_elements =
      0;  // of one sample, one way: tokens · top_k · hidden; 0 = no experts
  // Forward passes of tp communication, each of output_elements: attention and MLP make one each.
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
  // In forward order. For transformers: embedding (1), layers, head (1): the layers are what
  // pipeline stages divide; embedding goes to the first stage, head to the last.
  std::vector<BlockRun> runs;
  std::int64_t embedding = -1;  // kind, -1 = none
  std::int64_t head = -1;       // kind: final norm, output projection and loss
  double rows = 0;              // of one sample
  double vocab = 0;             // logits a row of the head; 0 = none
  double tied_elements = 0;     // embedding elements that the head shares; 0 = untied
  double parameters = 0;        // all, tied counted once
  bool known = false;           // false: family state, only `parameters` holds
};

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

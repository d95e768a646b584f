#include "planner/estimate/memory/block_bytes.h"

#include <algorithm>
#include <cmath>

#include "planner/estimate/memory/runtime_memory.h"
#include "planner/mesh/stages.h"

namespace nqd::planner {
namespace {

using Dropped = SavedTensor::Dropped;

class BlockCounter {
 public:
  BlockCounter(const Config& base, const ModelShape& shape, const Candidate& candidate)
      : base_(base),
        shape_(shape),
        candidate_(candidate),
        division_(division_of(base)),
        samples_(candidate.micro_batch_size),
        element_(static_cast<double>(weight_bytes(base.train))) {
    division_.tp = candidate.tp;
    division_.cp = candidate.cp;
    division_.ep = candidate.ep;
    division_.sequence_parallel = candidate.sequence_parallel;
  }

  BlockBytes count(const BlockShape& block) const;

 private:
  double bytes(const SavedTensor& tensor) const {
    const double width = tensor.element_bytes == 2 ? element_ : tensor.element_bytes;
    return samples_ * tensor.elements * width * activation_share(tensor.split, division_);
  }
  template <typename Keep>
  double sum(const std::vector<SavedTensor>& tensors, Keep keep) const {
    double total = 0;
    for (const SavedTensor& tensor : tensors) {
      if (keep(tensor)) total += bytes(tensor);
    }
    return total;
  }
  bool by_operation(const BlockShape& block) const {
    return base_.train.runtime == Runtime::kFsdp2 && !block.saved_by_operation.empty();
  }
  void count_saved(const BlockShape& block, BlockBytes& out) const;
  void count_gradients(const BlockShape& block, BlockBytes& out) const;
  void count_exchanges(const BlockShape& block, BlockBytes& out) const;
  double logits(const BlockShape& block) const;

  const Config& base_;
  const ModelShape& shape_;
  const Candidate& candidate_;
  Division division_;
  double samples_;
  double element_;
};

void BlockCounter::count_saved(const BlockShape& block, BlockBytes& out) const {
  const auto all = [](const SavedTensor&) { return true; };
  switch (candidate_.recompute) {
    case Recompute::kNone:
      out.kept = sum(block.saved, all);
      break;
    case Recompute::kSelective:
      if (by_operation(block)) {
        out.kept = sum(block.saved_by_operation, all);
        out.working = std::max(0.0, sum(block.saved, all) - out.kept);
        break;
      }
      out.kept = sum(block.saved, [](const SavedTensor& tensor) {
        return tensor.dropped != Dropped::kBySelective;
      });
      out.working = sum(block.saved, [](const SavedTensor& tensor) {
        return tensor.dropped == Dropped::kBySelective;
      });
      break;
    case Recompute::kFull:
      out.kept = sum(block.saved,
                     [](const SavedTensor& tensor) { return tensor.dropped == Dropped::kNever; });
      out.working = sum(block.saved, all);
      break;
  }
}

// The gradient of the residual stream, that of the branch in backward, and the widest inside it.
void BlockCounter::count_gradients(const BlockShape& block, BlockBytes& out) const {
  double widest = 0;
  for (const MatmulShape& product : block.matmuls) {
    // A product that is split by its inner side puts out whole rows.
    const bool whole = product.split == Split::kTensor && product.split_k;
    const double share = activation_share(whole ? Split::kSequence : product.split, division_);
    widest = std::max(widest, product.rows * product.n * share);
  }
  if (base_.train.attention == Attention::kMaterialised) {
    // The dropped scores are freed when the gradient of the scores is taken: one net.
    const AttentionShape& attention = block.attention;
    widest = std::max(widest, attention.rows * attention.rows * attention.heads *
                                  activation_share(Split::kTensor, division_));
  }
  if (block.output_elements <= 0) return;
  const double stream = block.output_elements * activation_share(Split::kSequence, division_);
  out.gradients = samples_ * element_ * (2 * stream + widest);
  out.boundary = samples_ * element_ * stream;
  out.full_row =
      samples_ * element_ * block.output_elements * activation_share(Split::kNone, division_);
}

void BlockCounter::count_exchanges(const BlockShape& block, BlockBytes& out) const {
  const AttentionShape& attention = block.attention;
  if (candidate_.cp > 1 && attention.heads > 0) {
    const RuntimeMemory runtime = runtime_memory(base_);
    const double width = attention.qk_dim + attention.v_dim;
    const double heads = runtime.context_gathers
                             ? attention.heads / static_cast<double>(division_.tp) *
                                   static_cast<double>(candidate_.cp)
                             : attention.kv_heads * activation_share(Split::kKeyValue, division_) *
                                   static_cast<double>(candidate_.cp);
    out.context = runtime.context_parts * samples_ * element_ * attention.rows /
                  static_cast<double>(candidate_.cp) * heads * width;
  }
  if (candidate_.ep > 1) {
    // Sent to experts, and sent back.
    out.dispatch = 2 * samples_ * element_ * block.all_to_all_elements *
                   activation_share(Split::kExpert, division_);
  }
}

// The vocabulary is padded to a multiple of tp.
double BlockCounter::logits(const BlockShape& block) const {
  double elements = 0;
  for (const Pointwise& pass : block.pointwise) {
    if (pass.name != "logits") continue;
    if (pass.split == Split::kTensor && shape_.vocab > 0) {
      const double columns = std::ceil(shape_.vocab / static_cast<double>(candidate_.tp));
      elements +=
          pass.forward_elements / shape_.vocab * columns / static_cast<double>(candidate_.cp);
    } else {
      elements += pass.forward_elements * activation_share(pass.split, division_);
    }
  }
  return samples_ * elements;
}

BlockBytes BlockCounter::count(const BlockShape& block) const {
  BlockBytes out;
  count_saved(block, out);
  count_gradients(block, out);
  count_exchanges(block, out);
  out.logits = logits(block);
  const std::int64_t tp = candidate_.tp;
  const std::int64_t expert_tp = division_.expert_tp > 0 ? division_.expert_tp : tp;
  out.dense = block.parameters.dense_of_rank(tp);
  out.expert = block.parameters.expert_of_rank(candidate_.ep, expert_tp);
  return out;
}

}  // namespace

std::vector<BlockBytes> block_bytes(const Config& base, const ModelShape& shape,
                                    const Candidate& candidate) {
  const BlockCounter counter(base, shape, candidate);
  std::vector<BlockBytes> blocks;
  blocks.reserve(shape.kinds.size());
  for (const BlockShape& block : shape.kinds) blocks.push_back(counter.count(block));
  return blocks;
}

}  // namespace nqd::planner

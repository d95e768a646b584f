#include "planner/estimate/memory/stage_bytes.h"

#include <algorithm>
#include <cmath>

namespace nqd::planner {
namespace {

constexpr double kFloat32Bytes = 4;

// Shards are equal and the last is padded: every rank allocates the ceiling.
double shard(double elements, std::int64_t ranks) {
  return std::ceil(elements / static_cast<double>(ranks));
}

// Sums and maxima over the blocks of a stage.
struct StageSums {
  double dense = 0;  // elements
  double expert = 0;
  double unit = 0;        // largest
  double layer = 0;       // largest unit that is no embedding or head
  double neighbours = 0;  // largest two in a row, or the only one
  double head_unit = 0;
  double previous = -1;
  double layers = 0;
  double kept = 0;     // of layers
  double working = 0;  // largest
  double gradients = 0;
  double boundary = 0;
  double full_row = 0;
  double context = 0;
  double dispatch = 0;
  double kept_first = 0;
  double kept_last = 0;
  double logits = 0;
};

class StageCounter {
 public:
  StageCounter(const StageContext& context, const StageShare& share, const StageQueue& queue)
      : c_(context), share_(share), queue_(queue) {}

  Categories count();

 private:
  double& at(MemoryTag tag) { return out_[static_cast<std::size_t>(tag)]; }
  bool pipelined() const { return c_.candidate.pp > 1; }
  bool sharded_weights() const { return c_.shards.weights > 1; }

  void sum();
  void add(std::int64_t kind, double count, bool layer);
  void put_state();
  void put_gathered();
  void put_activations();
  void put_peak();
  void put_communication();
  void put_rest();
  double bucket_bytes() const;
  double boundaries() const;

  const StageContext& c_;
  const StageShare& share_;
  const StageQueue& queue_;
  StageSums sums_;
  Categories out_{};
};

void StageCounter::add(std::int64_t kind, double count, bool layer) {
  if (kind < 0 || count <= 0) return;
  const BlockBytes& block = (*c_.blocks)[static_cast<std::size_t>(kind)];
  const bool last = kind == c_.shape->head;
  const bool copied = last && share_.last && !share_.first;
  const double dense = block.dense + (copied ? c_.embedding_copy : 0);
  const double unit = dense + block.expert;
  sums_.dense += count * dense;
  sums_.expert += count * block.expert;
  sums_.unit = std::max(sums_.unit, unit);
  if (last) sums_.head_unit = unit;
  sums_.neighbours = std::max(sums_.neighbours, unit + std::max(sums_.previous, 0.0));
  if (count > 1) sums_.neighbours = std::max(sums_.neighbours, 2 * unit);
  sums_.previous = unit;
  sums_.logits += count * block.logits;
  sums_.gradients = std::max(sums_.gradients, block.gradients);
  if (!layer) return;
  sums_.layer = std::max(sums_.layer, unit);
  sums_.layers += count;
  sums_.kept += count * block.kept;
  sums_.working = std::max(sums_.working, block.working);
  sums_.boundary = std::max(sums_.boundary, block.boundary);
  sums_.full_row = std::max(sums_.full_row, block.full_row);
  sums_.context = std::max(sums_.context, block.context);
  sums_.dispatch = std::max(sums_.dispatch, block.dispatch);
}

void StageCounter::sum() {
  const ModelShape& shape = *c_.shape;
  if (shape.embedding < 0 && shape.head < 0) {
    for (const BlockRun& run : shape.runs) add(run.kind, static_cast<double>(run.count), true);
    return;
  }
  if (share_.first) {
    add(shape.embedding, 1, false);
    sums_.kept_first = (*c_.blocks)[static_cast<std::size_t>(shape.embedding)].kept;
  }
  add(c_.dense_kind, static_cast<double>(share_.dense), true);
  add(c_.moe_kind, static_cast<double>(share_.moe), true);
  if (!share_.last) return;
  if (shape.mtp >= 0) {
    const auto modules = static_cast<double>(c_.base->model.mtp_layers);
    add(shape.mtp, modules, false);
    sums_.kept_last = modules * (*c_.blocks)[static_cast<std::size_t>(shape.mtp)].kept;
  }
  add(shape.head, 1, false);
  sums_.kept_last += (*c_.blocks)[static_cast<std::size_t>(shape.head)].kept;
}

void StageCounter::put_state() {
  if (!c_.shape->known) {
    const Candidate& mesh = c_.candidate;
    sums_.dense = c_.shape->parameters / static_cast<double>(mesh.tp * mesh.pp);
  }
  const StateBytes& bytes = c_.state;
  const auto put = [&](MemoryTag tag, double size, std::int64_t ranks, std::int64_t expert_ranks) {
    at(tag) += size * (shard(sums_.dense, ranks) + shard(sums_.expert, expert_ranks));
  };
  put(MemoryTag::kWeights, bytes.weights, c_.shards.weights, c_.expert_shards.weights);
  put(MemoryTag::kGradients, bytes.gradients, c_.shards.gradients, c_.expert_shards.gradients);
  put(MemoryTag::kGradients, bytes.gradients_of_optimizer, c_.shards.optimizer,
      c_.expert_shards.optimizer);
  put(MemoryTag::kMaster, bytes.master, c_.shards.optimizer, c_.expert_shards.optimizer);
  put(MemoryTag::kMoments, bytes.moments, c_.shards.optimizer, c_.expert_shards.optimizer);
  put(MemoryTag::kEma, bytes.ema, c_.shards.optimizer, c_.expert_shards.optimizer);
}

void StageCounter::put_gathered() {
  if (!c_.shape->known) return;
  const auto element = static_cast<double>(weight_bytes(c_.base->train));
  const double all = sums_.dense + sums_.expert;
  if (c_.runtime.float32_shards) {
    // fsdp2: zero2 keeps weights gathered from forward to backward; a pipeline keeps them for all
    // micro-batches, and with them gradients that are accumulated unsharded in float32.
    const bool stays = c_.candidate.engine == Engine::kZero2;
    if (pipelined()) {
      at(MemoryTag::kGatheredUnits) = (element + kFloat32Bytes) * all;
    } else if (stays) {
      at(MemoryTag::kGatheredUnits) = element * all;
    } else {
      at(MemoryTag::kGatheredUnits) = element * std::min(all, 2 * sums_.layer + sums_.head_unit);
    }
    return;
  }
  if (!sharded_weights()) return;
  // DeepSpeed gathers until stage3_max_live_parameters is reached.
  const double gathered = c_.runtime.live_elements > 0
                              ? std::min(all, std::max(c_.runtime.live_elements, sums_.unit))
                              : sums_.neighbours;
  at(MemoryTag::kGatheredUnits) = element * gathered;
}

void StageCounter::put_activations() {
  // With full recomputation one input stands for a group of layers.
  const auto every = static_cast<double>(std::max<std::int64_t>(c_.base->train.recompute_every, 1));
  double kept = sums_.kept;
  if (c_.candidate.recompute == Recompute::kFull && sums_.layers > 0) {
    kept *= std::ceil(sums_.layers / every) / sums_.layers;
    sums_.working *= std::min(every, sums_.layers);
  }
  at(MemoryTag::kActivations) = kept * queue_.in_flight + sums_.kept_first * queue_.embeddings +
                                sums_.kept_last * queue_.losses;
}

// Two moments are compared: the loss, and the backward of a layer.
void StageCounter::put_peak() {
  const double waiting = sums_.logits * c_.runtime.loss_kept_bytes * (queue_.losses - 1);
  const double loss = sums_.logits * c_.runtime.loss_bytes;
  double reduced = 0;
  if (c_.runtime.float32_shards) {
    // A layer's gradients, and without a pipeline the float32 copies that are reduced at once.
    const auto element = static_cast<double>(weight_bytes(c_.base->train));
    reduced = (element + (pipelined() ? 0 : kFloat32Bytes)) * sums_.layer;
  }
  const double exchanged = sums_.context + sums_.dispatch + reduced;
  at(MemoryTag::kLogits) = waiting;
  if (loss >= sums_.working + sums_.gradients + exchanged) {
    at(MemoryTag::kLogits) += loss;
    return;
  }
  at(MemoryTag::kWorkspace) = sums_.working;
  at(MemoryTag::kActivationGradients) = sums_.gradients;
  at(MemoryTag::kCommunication) += exchanged;
}

// Gradients between backward and their reduction.
double StageCounter::bucket_bytes() const {
  if (c_.candidate.dp * c_.candidate.cp <= 1 || c_.runtime.float32_shards) return 0;
  const auto element = static_cast<double>(gradient_bytes(c_.base->train));
  const double all = sums_.dense + sums_.expert;
  if (c_.runtime.bucket_elements > 0) {
    const double bucket = std::min(all, c_.runtime.bucket_elements);
    const bool overlapped =
        c_.candidate.engine == Engine::kZero1 || c_.candidate.engine == Engine::kZero2;
    return element * bucket * (overlapped ? c_.runtime.overlapped_buckets : 1);
  }
  if (sharded_weights() && c_.shape->known) return element * sums_.unit;
  if (c_.runtime.reduces_in_place) return 0;
  return std::min(2.0 * static_cast<double>(c_.base->train.bucket_bytes), element * all);
}

// Buffers of pipeline messages, beside the inputs that are kept as activations.
double StageCounter::boundaries() const {
  // The next micro-batch's input and the gradient of this one's output.
  if (!c_.runtime.receives_ahead) return 2;
  const double inputs = std::max(0.0, queue_.all_chunks - queue_.chunks);
  return inputs + queue_.all_chunks + queue_.chunks;
}

void StageCounter::put_communication() {
  const Candidate& mesh = c_.candidate;
  at(MemoryTag::kCommunication) += bucket_bytes();
  if (mesh.sequence_parallel && mesh.tp > 1) {
    at(MemoryTag::kCommunication) += c_.runtime.tensor_buffers * sums_.full_row;
  }
  if (pipelined()) at(MemoryTag::kCommunication) += boundaries() * sums_.boundary;
}

void StageCounter::put_rest() {
  const Candidate& mesh = c_.candidate;
  if (c_.shape->vocab > 0) {
    at(MemoryTag::kData) = 2 * c_.runtime.id_bytes * static_cast<double>(mesh.micro_batch_size) *
                           c_.shape->rows / static_cast<double>(mesh.cp);
  }
  const std::int64_t communicators =
      (mesh.dp * mesh.cp > 1) + (mesh.tp > 1) + (mesh.cp > 1) + (mesh.pp > 1) + (mesh.ep > 1);
  at(MemoryTag::kAllocatorReserve) = c_.runtime.reserve_share * totals_of(out_).transient;
  at(MemoryTag::kDeviceContext) = device_context_bytes(c_.base->cluster, communicators);
}

Categories StageCounter::count() {
  sum();
  put_state();
  put_gathered();
  put_activations();
  put_peak();
  put_communication();
  put_rest();
  return out_;
}

}  // namespace

StageTotals totals_of(const Categories& categories) {
  StageTotals totals;
  for (std::size_t i = 0; i < categories.size(); ++i) {
    (is_persistent(static_cast<MemoryTag>(i)) ? totals.persistent : totals.transient) +=
        categories[i];
  }
  return totals;
}

Categories stage_bytes(const StageContext& context, const StageShare& share,
                       const StageQueue& queue) {
  return StageCounter(context, share, queue).count();
}

}  // namespace nqd::planner

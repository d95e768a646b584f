// The arithmetic of the mesh rules, one predicate each: check_mesh says what is wrong with a config
// by them, and a search decides by the same ones a million times. All counts are at least 1 unless
// a comment allows 0.
#pragma once

#include <cstdint>

#include "planner/spec.h"

namespace nqd::planner::rules {

inline constexpr std::int64_t kMaxRanks = std::int64_t{1} << 20;

constexpr bool divides(std::int64_t divisor, std::int64_t value) noexcept {
  return value % divisor == 0;
}

// Devices that a tp group may use: those of one scale-up domain.
constexpr std::int64_t tp_domain(std::int64_t gpus_per_node, std::int64_t nvlink_domain) noexcept {
  return nvlink_domain > 0 ? nvlink_domain : gpus_per_node;
}
constexpr bool tp_in_domain(std::int64_t tp, std::int64_t gpus_per_node,
                            std::int64_t nvlink_domain) noexcept {
  return divides(tp, tp_domain(gpus_per_node, nvlink_domain));
}

// Whole heads a rank. heads 0: the model has no attention, so that any tp will do.
constexpr bool heads_split(std::int64_t heads, std::int64_t tp) noexcept {
  return divides(tp, heads);
}

// Whole groups of keys and values a rank, or one group copied on several. kv_heads 0: no attention.
constexpr bool kv_heads_split(std::int64_t kv_heads, std::int64_t tp) noexcept {
  return kv_heads == 0 || divides(tp, kv_heads) || divides(kv_heads, tp);
}

// Every virtual stage has a layer; the split itself may be uneven.
constexpr bool layers_fill(std::int64_t layers, std::int64_t pp, std::int64_t vpp) noexcept {
  return pp * vpp <= layers;
}
constexpr bool layers_even(std::int64_t layers, std::int64_t pp, std::int64_t vpp) noexcept {
  return divides(pp * vpp, layers);
}

// Every rank has as many layers, but its virtual stages do not: the case that passes the checks of
// launchers which then round down (github.com/NVIDIA/Megatron-LM/issues/468).
constexpr bool layers_dropped(std::int64_t layers, std::int64_t pp, std::int64_t vpp) noexcept {
  return divides(pp, layers) && !divides(pp * vpp, layers);
}
// What such a launcher trains.
constexpr std::int64_t layers_rounded_down(std::int64_t layers, std::int64_t pp,
                                           std::int64_t vpp) noexcept {
  return layers / (pp * vpp) * (pp * vpp);
}

constexpr bool batch_divides(std::int64_t global_batch_size, std::int64_t micro_batch_size,
                             std::int64_t dp) noexcept {
  return divides(micro_batch_size * dp, global_batch_size);
}

// vpp > 1 needs pp > 1.
constexpr bool virtual_stages_piped(std::int64_t pp, std::int64_t vpp) noexcept {
  return vpp == 1 || pp > 1;
}

// interleaved: vpp > 1; zb-v: vpp = 2; the others: vpp = 1. All but gpipe and 1f1b need a pipeline.
constexpr bool schedule_takes(Schedule schedule, std::int64_t pp, std::int64_t vpp) noexcept {
  switch (schedule) {
    case Schedule::kGPipe:
    case Schedule::k1F1B:
      return vpp == 1;
    case Schedule::kInterleaved:
      return vpp > 1 && pp > 1;
    case Schedule::kZbH1:
    case Schedule::kZbH2:
      return vpp == 1 && pp > 1;
    case Schedule::kZbV:
      return vpp == 2 && pp > 1;
  }
  return false;
}

// The interleaved schedule passes micro-batches on in groups of pp.
constexpr bool micro_batches_grouped(Schedule schedule, std::int64_t pp,
                                     std::int64_t micro_batches) noexcept {
  return schedule != Schedule::kInterleaved || divides(pp, micro_batches);
}

constexpr bool sequence_parallel_used(bool sequence_parallel, std::int64_t tp) noexcept {
  return !sequence_parallel || tp > 1;
}

// cp ranks hold equal parts of a sequence. With causal attention each takes one chunk from the
// front and one from the back, so that all have the same work: 2·cp chunks.
constexpr std::int64_t context_chunks(std::int64_t cp, bool causal) noexcept {
  return cp > 1 && causal ? 2 * cp : cp;
}
constexpr bool context_splits(std::int64_t sequence, std::int64_t cp, bool causal) noexcept {
  return divides(context_chunks(cp, causal), sequence);
}

// Sequence parallelism cuts what a cp rank holds into tp equal parts.
constexpr bool sequence_splits(std::int64_t sequence, std::int64_t cp, std::int64_t tp,
                               bool sequence_parallel) noexcept {
  return !sequence_parallel || divides(cp * tp, sequence);
}

// experts 0: a model without experts, which has no ep.
constexpr bool experts_split(std::int64_t experts, std::int64_t ep) noexcept {
  return ep == 1 || (experts > 0 && divides(ep, experts));
}

// The ranks that share experts, ep·expert_tp of them, are taken from dp·cp·tp. expert_tp 0: tp.
constexpr bool expert_ranks_fit(std::int64_t dp, std::int64_t cp, std::int64_t tp, std::int64_t ep,
                                std::int64_t expert_tp) noexcept {
  return ep == 1 || divides(ep * (expert_tp > 0 ? expert_tp : tp), dp * cp * tp);
}

// hsdp shard groups of `shard` ranks are equal. 0: the default, which always is.
constexpr bool shards_equal(Engine engine, std::int64_t dp, std::int64_t shard) noexcept {
  return engine != Engine::kHsdp || shard == 0 || divides(shard, dp);
}

// hsdp has several shard groups, of several ranks each; cp ranks are in the group as well.
constexpr bool shards_and_copies(Engine engine, std::int64_t dp, std::int64_t cp,
                                 std::int64_t shard) noexcept {
  return engine != Engine::kHsdp || (shard * cp > 1 && shard < dp);
}

// Inner width of an MLP, of the shared experts (0: none) or, over expert_tp, of one expert.
constexpr bool width_splits(std::int64_t width, std::int64_t tp) noexcept {
  return divides(tp, width);
}

// Only heads and layers of transformers are divided: other families have data parallelism alone.
constexpr bool family_splits(bool transformer, std::int64_t tp, std::int64_t pp) noexcept {
  return transformer || (tp == 1 && pp == 1);
}
constexpr bool family_takes_context(bool transformer, std::int64_t cp) noexcept {
  return transformer || cp == 1;
}

// expert_tp 0: tp. An expert is divided over some of the ranks of a tp group.
constexpr bool expert_tp_divides(std::int64_t expert_tp, std::int64_t tp) noexcept {
  return expert_tp == 0 || divides(expert_tp, tp);
}
// Without sequence parallelism all ranks of a tp group would send the same tokens to the experts.
constexpr bool expert_tokens_distinct(std::int64_t ep, std::int64_t tp,
                                      bool sequence_parallel) noexcept {
  return ep == 1 || tp == 1 || sequence_parallel;
}

// Full recomputation keeps one input for every `every` layers of a virtual stage.
constexpr bool recompute_groups_equal(Recompute recompute, std::int64_t every,
                                      std::int64_t layers_of_stage) noexcept {
  return recompute != Recompute::kFull || divides(every, layers_of_stage);
}

// Offloaded under ddp, every replica would keep a whole copy of the optimizer's state in host
// memory.
constexpr bool offload_shards(bool offload, Engine engine, std::int64_t dp) noexcept {
  return !offload || engine != Engine::kDdp || dp == 1;
}

// fsdp2 shards gradients, and weights after each use or after backward: never the optimizer alone.
constexpr bool runtime_has_engine(Runtime runtime, Engine engine) noexcept {
  return runtime != Runtime::kFsdp2 || (engine != Engine::kDdp && engine != Engine::kZero1);
}
// DeepSpeed's pipeline engine reduces gradients once a step: at most zero1.
constexpr bool runtime_pipes_engine(Runtime runtime, Engine engine, std::int64_t pp) noexcept {
  return runtime != Runtime::kDeepSpeed || pp == 1 || engine == Engine::kDdp ||
         engine == Engine::kZero1;
}

// In canonical numerics a tp rank adds a whole subtree of the slices: a power of two of them.
constexpr bool canonical_slices(std::int64_t tp, std::int64_t slices) noexcept {
  if (tp == 1) return true;
  const std::int64_t own = slices / tp;
  return divides(tp, slices) && (own & (own - 1)) == 0;
}

// Equal slices of every width that tp divides, and of the rows where sequence parallelism does.
bool slices_cut(const Config& config, std::int64_t slices);

// 8-bit matrix products take sides that are multiples of 16.
inline constexpr std::int64_t kFp8Multiple = 16;
constexpr bool fp8_takes(Precision precision, std::int64_t side) noexcept {
  return precision != Precision::kFp8 || divides(kFp8Multiple, side);
}

}  // namespace nqd::planner::rules

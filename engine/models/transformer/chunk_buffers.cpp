#include "engine/models/transformer/chunk_buffers.h"

#include <algorithm>

#include "base/dtype.h"

namespace nqd::engine {
namespace {

// A buffer by name, null where the list has none.
template <typename T>
T* find(const ActivationArena& arena, const std::string& name) {
  return arena.has(name) ? reinterpret_cast<T*>(arena.at(name)) : nullptr;
}

// Buffers of a slot, or of the set that is used where the slot does not keep them.
class Finder {
 public:
  Finder(const ActivationArena& arena, std::string kept, std::string otherwise)
      : arena_(arena), kept_(std::move(kept)), otherwise_(std::move(otherwise)) {}

  template <typename T>
  T* get(const std::string& name) const {
    T* const kept = find<T>(arena_, kept_ + name);
    return kept != nullptr ? kept : find<T>(arena_, otherwise_ + name);
  }
  template <typename S>
  NormBuffers<S> norm(const std::string& name) const {
    return {get<S>(name), get<float>(name + ".mean"), get<float>(name + ".rstd")};
  }

 private:
  const ActivationArena& arena_;
  std::string kept_;
  std::string otherwise_;
};

template <typename S>
LayerActivations<S> layer_activations(const Finder& at) {
  LayerActivations<S> a;
  a.input = at.get<S>("input");
  a.norm1 = at.norm<S>("norm1");
  a.qkv = at.get<S>("qkv");
  a.attention = at.get<S>("attention");
  a.lse = at.get<float>("lse");
  a.attention_residual = at.get<S>("attention_residual");
  a.norm2 = at.norm<S>("norm2");
  a.fc = at.get<S>("fc");
  a.activated = at.get<S>("activated");
  return a;
}

template <typename S>
LayerStash<S> layer_stash(const ActivationArena& arena, const std::string& prefix) {
  return {find<S>(arena, prefix + "d_mlp"), find<S>(arena, prefix + "d_fc"),
          find<S>(arena, prefix + "d_attention"), find<S>(arena, prefix + "d_qkv"),
          find<float>(arena, prefix + "replicated")};
}

}  // namespace

template <typename S>
Workspace<S>::Workspace(const ActivationArena& arena)
    : partial(find<float>(arena, "shared.partial")),
      scattered(find<float>(arena, "shared.scattered")),
      gathered(find<S>(arena, "shared.gathered")),
      d_inner(find<S>(arena, "shared.d_inner")),
      d_norm(find<S>(arena, "shared.d_norm")),
      attention(find<float>(arena, "shared.attention")),
      rotary(find<float>(arena, "shared.rotary")),
      slices(find<float>(arena, "shared.slices")),
      positions(find<float>(arena, "shared.positions")),
      d_pooled(find<float>(arena, "shared.d_pooled")),
      row_losses(find<double>(arena, "shared.row_losses")) {}

template <typename S>
ChunkBuffers<S>::ChunkBuffers(const planner::Config& config, std::int64_t chunk,
                              const std::vector<planner::LocalUnit>& units,
                              const ActivationArena& arena)
    : group_(planner::recompute_group(config.train)),
      shared_stash_(layer_stash<S>(arena, "shared.stash.")) {
  for (const planner::LocalUnit& unit : units) {
    if (unit.role != planner::UnitRole::kLayer) continue;
    if (layer_count_++ == 0) first_layer_ = unit.layer;
  }
  const std::string prefix = "chunk" + std::to_string(chunk) + ".";
  // Every slot has an output or a head.
  for (std::int64_t i = 0;; ++i) {
    const std::string slot = prefix + "slot" + std::to_string(i) + ".";
    if (!arena.has(slot + "output") && !arena.has(slot + "head.input")) break;
    add_slot(slot, arena);
  }
  for (std::int64_t i = 0; arena.has(prefix + "gradient" + std::to_string(i)); ++i) {
    gradients_.push_back(find<S>(arena, prefix + "gradient" + std::to_string(i)));
  }
  for (std::int64_t i = 0;; ++i) {
    const std::string stash = prefix + "stash" + std::to_string(i) + ".";
    const std::string layer = stash + "layers." + std::to_string(first_layer_) + ".d_mlp";
    if (!arena.has(layer) && !arena.has(stash + "head.replicated")) break;
    stashes_.push_back(make_stash(stash, arena));
  }
}

template <typename S>
void ChunkBuffers<S>::add_slot(const std::string& slot, const ActivationArena& arena) {
  for (std::int64_t i = 0; i < layer_count_; ++i) {
    const std::int64_t place = group_ > 0 ? i % group_ : 0;
    const Finder at(arena, slot + "layers." + std::to_string(first_layer_ + i) + ".",
                    "shared.recompute" + std::to_string(place) + ".");
    layers_.push_back(layer_activations<S>(at));
  }
  const Finder at(arena, slot, "");
  heads_.push_back(
      {find<S>(arena, slot + "head.input"), at.norm<S>("head.norm"),
       find<float>(arena, slot + "head.logits"), find<float>(arena, slot + "head.maximum"),
       find<float>(arena, slot + "head.sums"), find<std::int32_t>(arena, slot + "targets"),
       find<S>(arena, slot + "head.pooled")});
  tokens_.push_back(find<std::int32_t>(arena, slot + "tokens"));
  features_.push_back(find<float>(arena, slot + "features"));
  outputs_.push_back(find<S>(arena, slot + "output"));
}

template <typename S>
typename ChunkBuffers<S>::ChunkStash ChunkBuffers<S>::make_stash(
    const std::string& prefix, const ActivationArena& arena) const {
  ChunkStash stash;
  for (std::int64_t i = 0; i < layer_count_; ++i) {
    const std::string layer = prefix + "layers." + std::to_string(first_layer_ + i) + ".";
    stash.layers.push_back(layer_stash<S>(arena, layer));
    LayerActivations<S> recomputed;
    recomputed.norm1.output = find<S>(arena, layer + "norm1");
    recomputed.attention = find<S>(arena, layer + "attention");
    recomputed.norm2.output = find<S>(arena, layer + "norm2");
    recomputed.activated = find<S>(arena, layer + "activated");
    stash.recomputed.push_back(recomputed);
  }
  stash.head_replicated = find<float>(arena, prefix + "head.replicated");
  stash.embedding = find<S>(arena, prefix + "embedding");
  return stash;
}

template <typename S>
LayerActivations<S> ChunkBuffers<S>::backward(std::int64_t slot, std::int64_t stash,
                                              std::int64_t layer) const {
  LayerActivations<S> a = forward(slot, layer);
  if (stashes_.empty()) return a;
  const LayerActivations<S>& own =
      stashes_[static_cast<std::size_t>(stash)].recomputed[static_cast<std::size_t>(layer)];
  const auto replace = [](S*& buffer, S* by) {
    if (by != nullptr) buffer = by;
  };
  replace(a.norm1.output, own.norm1.output);
  replace(a.attention, own.attention);
  replace(a.norm2.output, own.norm2.output);
  replace(a.activated, own.activated);
  return a;
}

template <typename S>
LayerStash<S> ChunkBuffers<S>::stash(std::int64_t stash, std::int64_t layer) const {
  if (stashes_.empty()) return shared_stash_;
  return stashes_[static_cast<std::size_t>(stash)].layers[static_cast<std::size_t>(layer)];
}

template <typename S>
float* ChunkBuffers<S>::head_replicated(std::int64_t stash) const {
  if (stashes_.empty()) return shared_stash_.replicated;
  return stashes_[static_cast<std::size_t>(stash)].head_replicated;
}

template <typename S>
S* ChunkBuffers<S>::embedding_stash(std::int64_t stash) const {
  return stashes_.empty() ? nullptr : stashes_[static_cast<std::size_t>(stash)].embedding;
}

template <typename S>
S* ChunkBuffers<S>::residual(std::int64_t slot, std::int64_t layer) const {
  if (layer < layer_count_) return forward(slot, layer).input;
  S* const output = outputs_[static_cast<std::size_t>(slot)];
  return output != nullptr ? output : head(slot).input;
}

template <typename S>
std::int32_t* ChunkBuffers<S>::tokens(std::int64_t slot) const {
  return tokens_[static_cast<std::size_t>(slot)];
}

template <typename S>
float* ChunkBuffers<S>::features(std::int64_t slot) const {
  return features_[static_cast<std::size_t>(slot)];
}

template <typename S>
S* ChunkBuffers<S>::output(std::int64_t slot) const {
  return outputs_[static_cast<std::size_t>(slot)];
}

template struct Workspace<float>;
template struct Workspace<BFloat16>;
template struct Workspace<Float16>;
template class ChunkBuffers<float>;
template class ChunkBuffers<BFloat16>;
template class ChunkBuffers<Float16>;

}  // namespace nqd::engine

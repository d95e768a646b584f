// The arena's buffers as the units of one chunk see them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/models/transformer/activation_arena.h"
#include "planner/layout/rank_units.h"
#include "planner/spec.h"

namespace nqd::engine {

template <typename S>
struct NormBuffers {
  S* output = nullptr;
  float* mean = nullptr;  // null for RMSNorm
  float* rstd = nullptr;
};

// Shapes: planner/layout/activation_buffers.h.
template <typename S>
struct LayerActivations {
  S* input = nullptr;
  NormBuffers<S> norm1;
  S* qkv = nullptr;
  S* attention = nullptr;
  float* lse = nullptr;
  S* attention_residual = nullptr;
  NormBuffers<S> norm2;
  S* fc = nullptr;
  S* activated = nullptr;
};

template <typename S>
struct LayerStash {
  S* d_mlp = nullptr;
  S* d_fc = nullptr;
  S* d_attention = nullptr;
  S* d_qkv = nullptr;
  float* replicated = nullptr;
};

template <typename S>
struct HeadBuffers {
  S* input = nullptr;
  NormBuffers<S> norm;
  float* logits = nullptr;
  float* maximum = nullptr;  // [target rows]
  float* sums = nullptr;     // [2, target rows]
  std::int32_t* targets = nullptr;
  S* pooled = nullptr;  // [batch, h] of a classifier
};

// What all chunks of a rank share. Null where the config has no need of it.
template <typename S>
struct Workspace {
  float* partial = nullptr;    // [rows, h]
  float* scattered = nullptr;  // [R, h]
  S* gathered = nullptr;       // [rows, h]
  S* d_inner = nullptr;
  S* d_norm = nullptr;  // [R, h]; 16-bit storage alone
  float* attention = nullptr;
  float* rotary = nullptr;
  float* slices = nullptr;
  float* positions = nullptr;
  float* d_pooled = nullptr;
  double* row_losses = nullptr;

  explicit Workspace(const ActivationArena& arena);
};

template <typename S>
class ChunkBuffers {
 public:
  ChunkBuffers(const planner::Config& config, std::int64_t chunk,
               const std::vector<planner::LocalUnit>& units, const ActivationArena& arena);

  // `layer` counts from the chunk's first.
  const LayerActivations<S>& forward(std::int64_t slot, std::int64_t layer) const {
    return layers_[index(slot, layer)];
  }
  // With what backward_weight reads in the stash, where backward is split and recomputes.
  LayerActivations<S> backward(std::int64_t slot, std::int64_t stash, std::int64_t layer) const;
  LayerStash<S> stash(std::int64_t stash, std::int64_t layer) const;
  float* head_replicated(std::int64_t stash) const;
  // Null where backward is not split: the gradient buffer is left as it is until backward_weight.
  S* embedding_stash(std::int64_t stash) const;
  // Where the embedding (layer 0) or layer `layer` − 1 writes, and layer `layer` or what follows
  // the layers reads.
  S* residual(std::int64_t slot, std::int64_t layer) const;
  const HeadBuffers<S>& head(std::int64_t slot) const {
    return heads_[static_cast<std::size_t>(slot)];
  }
  // Null where the model takes features, and the other way round.
  std::int32_t* tokens(std::int64_t slot) const;
  float* features(std::int64_t slot) const;
  S* output(std::int64_t slot) const;
  S* gradient(std::int64_t i) const { return gradients_[static_cast<std::size_t>(i)]; }
  std::int64_t layer_count() const { return layer_count_; }
  std::int64_t slots() const { return static_cast<std::int64_t>(heads_.size()); }

 private:
  std::size_t index(std::int64_t slot, std::int64_t layer) const {
    return static_cast<std::size_t>(slot * layer_count_ + layer);
  }
  void add_slot(const std::string& slot, const ActivationArena& arena);

  struct ChunkStash {
    std::vector<LayerStash<S>> layers;
    std::vector<LayerActivations<S>> recomputed;  // of each layer, null where it is elsewhere
    float* head_replicated = nullptr;
    S* embedding = nullptr;
  };
  ChunkStash make_stash(const std::string& prefix, const ActivationArena& arena) const;

  std::int64_t first_layer_ = 0;
  std::int64_t layer_count_ = 0;
  std::int64_t group_ = 0;
  std::vector<LayerActivations<S>> layers_;  // by slot and layer
  std::vector<HeadBuffers<S>> heads_;
  std::vector<std::int32_t*> tokens_;
  std::vector<float*> features_;
  std::vector<S*> outputs_;
  std::vector<S*> gradients_;
  LayerStash<S> shared_stash_;
  std::vector<ChunkStash> stashes_;
};

}  // namespace nqd::engine

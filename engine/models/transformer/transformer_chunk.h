// One chunk (virtual stage) of a transformer on one tensor-parallel rank, unit by unit, with an
// explicit backward pass: a GPT-2-like or Llama-like decoder, or an encoder of time series.
//
// x = E_token[t] (+ E_position[i]); each layer: x += proj(attention(norm1(x))),
// x += mlp.proj(act(fc(norm2(x)))); logits = norm(x) · Wᵀ; the loss is the sum of cross-entropies
// (natural logarithm) over unmasked targets. LayerNorm or RMSNorm; learned or rotary positions;
// GELU (tanh form) or SwiGLU; grouped queries; with or without biases; dropout after the embedding
// and after both branches of a layer.
//
// An encoder takes x = W · features[i] + b (+ E_position[i]) in place of tokens, sees all time
// steps from each, and classifies samples: logits = W_head · (mean over i of norm(x[i])) + b_head,
// one target a sample.
//
// The caller walks the units: forward 0 … n−1; backward n−1 … 0, backward_input and later
// backward_weight of each; before backward_input of a unit, recompute() of every unit of
// recompute_before(unit), ascending. It hands in the weights of the one unit that is at work, so
// that they may be gathered for the call and freed after it. With full recomputation of groups of
// more than one layer the weights of a group are needed a third time.
//
// Communication in the tp group, a micro-batch: all_reduce after each row-parallel product (2 a
// layer forward), of the gradient of the input of each column-parallel product (2 a layer
// backward), of the head's input gradient (float32, [rows, h] each), and of the token embedding
// (S). With sequence parallelism each is a reduce_scatter instead, and an all_gather (S) stands
// before each column-parallel product and before the gradient of each row-parallel one and of the
// embedding; backward_weight gathers a layer's two norm outputs again, and sums the gradients of
// what all ranks hold (norms, biases of row-parallel products, positions) in one all_reduce a unit.
// The cross-entropy all_reduces the maxima [rows] and the sums of exponentials with the targets'
// logits [2, rows], float32. Of an encoder every rank computes the input projection and the
// classes, which takes no message but, with sequence parallelism, an all_gather of the final norm
// and one before the gradient of the projection. Full recomputation repeats the forward calls of a
// layer but, in the last layer of a group, the last one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/device/device.h"
#include "engine/models/transformer/activation_arena.h"
#include "engine/models/transformer/context.h"
#include "engine/models/transformer/rank_shape.h"
#include "planner/layout/rank_units.h"
#include "planner/spec.h"

namespace nqd::engine {

// Units [begin, end) of a chunk.
struct UnitRange {
  int begin = 0;
  int end = 0;
  bool empty() const { return begin == end; }
};

class TransformerChunk {
 public:
  class Impl;  // by storage type; known to transformer_chunk.cpp alone

  // The chunk's units are planner::chunk_units(config, chunk, tp.rank). `arena` holds
  // planner::activation_buffers of the chunk's stage in memory of `device`. All must outlive this
  // object, which keeps nothing else that grows with the model. Weights, gradients and what the
  // spans below show are device memory too.
  TransformerChunk(const planner::Config& config, const TransformerOptions& options,
                   std::int64_t chunk, const TensorParallel& tp, ActivationArena& arena,
                   Device& device);
  ~TransformerChunk();
  TransformerChunk(TransformerChunk&&) noexcept;
  TransformerChunk& operator=(TransformerChunk&&) noexcept;

  const std::vector<planner::LocalUnit>& units() const;

  // Copies the micro-batch from host memory into the slot. Inputs on the first chunk: int32 tokens
  // [rows], or of an encoder float32 features [rows, F], aligned as such. Targets on the last: one
  // a row, or of an encoder one a sample. Tokens and targets are in [0, vocab) or [0, classes); a
  // target of -1 is masked (no loss, no gradient). Throws Error (kUsage) for a value outside
  // (NQD2040) or another size (NQD2041).
  void load_inputs(std::int64_t slot, std::span<const std::byte> inputs);
  void load_targets(std::int64_t slot, std::span<const std::int32_t> targets);

  // S [R,h] of the residual stream. `input`: where a chunk that is not the first receives its
  // activations; `output`: what a chunk that is not the last sends. `gradient`: where a chunk that
  // is not the last receives the gradient of its output, and, once backward_input of unit 0 is
  // done, what a chunk that is not the first sends.
  std::span<std::byte> input(std::int64_t slot);
  std::span<std::byte> output(std::int64_t slot);
  std::span<std::byte> gradient(std::int64_t index);

  // Collective over the tp group, like all calls below.
  void forward(int unit, const UnitWeights& weights, const Pass& pass);

  // Units whose forward must be computed again before backward_input(unit): a group of layers
  // before its last one, else none.
  UnitRange recompute_before(int unit) const;
  void recompute(int unit, const UnitWeights& weights, const Pass& pass);

  // Turns the gradient of the unit's output into that of its input, in the pass's gradient buffer.
  void backward_input(int unit, const UnitWeights& weights, const Pass& pass);
  // Adds the unit's gradients, or sets them where they are fresh. With one shared stash it must
  // follow backward_input(unit) before that of another unit.
  void backward_weight(int unit, const UnitGradients& gradients, const Pass& pass);

  // Of the last forward of the last chunk: the cross-entropy of each target, 0 where it is masked;
  // the same on every tp rank. Device memory, valid until the next.
  std::span<const double> row_losses() const;
  // Of the targets that were loaded into the slot last.
  std::int64_t unmasked_targets(std::int64_t slot) const;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace nqd::engine

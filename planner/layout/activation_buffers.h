// Every buffer beside the state (weights, gradients, moments: planner/layout/state_buffers.h) that
// one rank of nqd's own engine holds while it trains: the engine allocates this list when it starts
// and nothing afterwards, the planner sums it. (The packing buffers of engine/gemm/fixed are the
// engine's constant and not listed.)
//
// rows = micro_batch_size · sequence; R = rows of the residual stream on a rank: rows, with
// sequence parallelism rows / tp, the tp ranks' parts in the order of flat rows. Widths are those
// of one tp rank. S = the storage type of train.precision (float32, bfloat16, float16).
//
// A slot keeps one micro-batch of one chunk from forward to backward ("chunk0.slot1."):
//   tokens                   int32 [rows]: first chunk; of an encoder features, float32 [rows, F]
//   targets                  int32 [rows]: last chunk; of an encoder [b]
//   output                   S [R,h]: what the next chunk receives (all chunks but the last)
//   layers.3.input           S [R,h]; with full recomputation of the first layer of a group alone
//   layers.3.{norm1,norm2}   S [R,h], with .mean (LayerNorm) and .rstd float32 [R]
//   layers.3.qkv             S [rows, q + k + v], rotated where positions are rotary
//   layers.3.attention       S [rows, context]; layers.3.lse float32 [b, heads, s]
//   layers.3.attention_residual  S [R,h]
//   layers.3.fc              S [rows, gates·f]; layers.3.activated S [rows, f]
//   head.{input, norm, norm.mean, norm.rstd}; with sequence parallelism head.norm is the gathered
//   head.logits              float32 [rows, vocabulary of the rank], in backward their gradient
//   head.maximum             float32 [rows]; head.sums float32 [2, rows]: of the exponentials, and
//                            the targets' logits
//   head.pooled              S [b,h]: an encoder's means over the rows of head.norm, whose logits,
//                            maximum and sums have b rows
// Selective recomputation keeps attention and lse of no layer, full recomputation nothing of a
// layer but the input of the first of every train.recompute_every layers of a chunk. What is not
// kept has one set for all layers ("shared.recompute0.", … one a layer of a group), or, where
// backward is in two halves, besides one a layer in every stash.
//
// A stash is what backward_input leaves for backward_weight. An ordinary backward has one for all
// layers ("shared.stash."); a schedule with a weight-gradient pass has one a chunk that waits for
// it
// ("chunk0.stash1.layers.3."):
//   d_mlp, d_attention       S [rows, h]: gradient of the output of the row-parallel products
//   d_fc                     S [rows, gates·f]; d_qkv S [rows, q + k + v]
//   replicated               float32: the rank's part of the gradients of what every tp rank holds
//   embedding                S [R,h] (split backward alone)
//
// "chunk0.gradient0", "…1" S [R,h]: the gradient of the residual stream, received, worked on and
// sent in place; two where there is a pipeline, so that one may travel while the other is worked
// on. "shared.…" otherwise: workspace of all chunks of the rank (partial sums, gathered inputs, …).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/ledger.h"
#include "planner/schedule/schedule.h"
#include "planner/spec.h"

namespace nqd::planner {

struct ActivationBuffer {
  std::string name;
  MemoryTag tag = MemoryTag::kActivations;
  std::int64_t bytes = 0;
  bool shared = false;  // takes part in collectives of the tp group: in a SharedBuffer
};

// How much of a chunk is in flight at most under the schedule of the config.
struct ChunkFlight {
  std::int64_t chunk = 0;
  std::int64_t slots = 1;      // micro-batches between their forward and the end of their backward
  std::int64_t stashes = 0;    // between their two halves of backward; 0: backward is not split
  std::int64_t gradients = 1;  // 2 in a pipeline
};
// Of the chunks that `stage` holds, ascending.
std::vector<ChunkFlight> chunk_flights(const Config& config, std::int64_t stage);
std::vector<ChunkFlight> chunk_flights(const PipelineSchedule& schedule, std::int64_t stage);

// What one sample is: numbers of 4 bytes in (tokens, or the features of all time steps), and
// targets.
struct SampleShape {
  std::int64_t inputs = 0;
  std::int64_t targets = 0;
};
SampleShape sample_shape(const ModelSpec& model);

// Rows of the residual stream on a tp rank.
std::int64_t residual_rows(const Config& config);

// Layers of a group whose first input alone is kept: train.recompute_every with full
// recomputation, else 0.
std::int64_t recompute_group(const TrainSpec& train);

// Float32 of scratch that attention takes a thread (engine/cpu/blocked_attention.h: its backward).
std::int64_t attention_scratch_elements(std::int64_t sequence, std::int64_t head_width);

// Rows of a product of stacked blocks that canonical numerics cut into slices at a time, and the
// float32 of its partial sums.
inline constexpr std::int64_t kSlicedRows = 128;
std::int64_t product_scratch_elements(const Config& config);

// The list of one rank of `stage`. The same on every tp rank. Preconditions: those of chunk_units
// (planner/layout/rank_units.h).
std::vector<ActivationBuffer> activation_buffers(const Config& config, std::int64_t stage);

}  // namespace nqd::planner

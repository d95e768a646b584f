// What a model on one rank is told about its place in the mesh and about a pass.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collectives/communicator.h"

namespace nqd::engine {

// The tensor-parallel group of a rank.
struct TensorParallel {
  collectives::Communicator* group = nullptr;  // null when size is 1
  int rank = 0;
  int size = 1;
  // The residual stream, norms and dropout are split by rows over the group.
  bool sequence_parallel = false;
  // The group's ranks may use each other's memory where they reach it.
  bool direct = true;
  // Test only: of every so many of a chunk's sums the last is left out, on every rank; 0: none.
  int missing_sum_for_test = 0;
  // Test only: under sequence parallelism the gradients of norms are not summed.
  bool missing_norm_sum_for_test = false;
};

// One micro-batch on its way through a chunk: which buffers are its own
// (planner/layout/activation_buffers.h), and what dropout and scaling need to know.
struct Pass {
  std::int64_t slot = 0;
  std::int64_t stash = 0;     // 0 where backward is not split
  std::int64_t gradient = 0;  // which of the chunk's gradient buffers holds the stream
  bool training = true;       // false: no dropout; backward must not follow
  std::int64_t step = 0;
  const std::uint32_t* step_at = nullptr;  // cpu::Dropout
  std::int64_t first_sequence = 0;  // global index in the step of the micro-batch's first sequence
  float loss_scale = 1.0F;          // gradients are those of loss_scale · Σ cross-entropy
};

// Flat elements of a unit in the storage type, at the offsets of planner::LocalUnit. kTied: those
// of the token table, its own or the embedding's. `table` is the unit of the token table where the
// head is tied without a unit kTied (fast numerics, both ends on one stage), and is read by kHead
// alone.
struct UnitWeights {
  const std::byte* own = nullptr;
  const std::byte* table = nullptr;
};

// Float32 gradients at the same offsets, added to. `fresh`: the matrices of a layer are set
// instead, whatever was there.
struct UnitGradients {
  float* own = nullptr;
  float* table = nullptr;
  bool fresh = false;
};

}  // namespace nqd::engine

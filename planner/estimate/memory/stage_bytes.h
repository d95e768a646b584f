// Bytes of one rank of one pipeline stage by category. No allocation: a search calls it for every
// candidate.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "base/ledger.h"
#include "planner/estimate/candidate.h"
#include "planner/estimate/memory/block_bytes.h"
#include "planner/estimate/memory/runtime_memory.h"
#include "planner/mesh/stages.h"
#include "planner/models/shape.h"
#include "planner/plan/memory.h"

namespace nqd::planner {

// By MemoryTag.
using Categories = std::array<double, static_cast<std::size_t>(MemoryTag::kCount)>;

struct StageTotals {
  double persistent = 0;
  double transient = 0;
  double total() const { return persistent + transient; }
};
// In the order of the tags, so that equal categories give equal bits.
StageTotals totals_of(const Categories& categories);

// What holds for all stages of a candidate.
struct StageContext {
  const Config* base = nullptr;
  const ModelShape* shape = nullptr;
  const std::vector<BlockBytes>* blocks = nullptr;  // by kind
  Candidate candidate;
  RuntimeMemory runtime;
  StateBytes state;
  ShardCounts shards;         // of what dp·cp ranks share
  ShardCounts expert_shards;  // of routed experts
  double embedding_copy = 0;  // elements of a token embedding on the last stage
  std::int64_t dense_kind = -1;
  std::int64_t moe_kind = -1;
};

// How many micro-batches wait on a stage.
struct StageQueue {
  double in_flight = 1;   // of whole stages
  double chunks = 1;      // the same in chunks of one micro-batch
  double all_chunks = 1;  // of a step
  double embeddings = 1;  // micro-batches between the first chunk's forward and backward
  double losses = 1;      // between a loss and its backward
};

Categories stage_bytes(const StageContext& context, const StageShare& share,
                       const StageQueue& queue);

}  // namespace nqd::planner

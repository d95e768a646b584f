// Micro-batches of one data-parallel rank.
#pragma once

#include <cstdint>
#include <span>

#include "base/ledger.h"
#include "engine/data/dataset.h"
#include "engine/data/sampler.h"

namespace nqd::engine {

// Holds the tokens and targets of one micro-batch (tag kData: 2 × 4 bytes a token).
class MicroBatch {
 public:
  MicroBatch(std::int64_t sequences, std::int64_t sequence, MemoryLedger& ledger);

  // Micro-batch `index` of `rank`'s share of a 0-based training step.
  void load_training(const TokenFile& file, const Sampler& sampler, std::uint64_t step,
                     std::uint64_t global_batch, int rank, int ranks, std::int64_t index);
  // Held-out samples [first, first + count) in file order, count ≤ sequences; the rest is masked.
  void load_heldout(const TokenFile& file, std::uint64_t first, std::int64_t count);

  std::span<const std::int32_t> tokens() const;
  std::span<const std::int32_t> targets() const;

 private:
  void load_sample(const TokenFile& file, std::uint64_t sample, std::int64_t row);
  std::span<std::int32_t> row_of(std::int32_t* base, std::int64_t row);

  std::int64_t sequences_;
  std::int64_t sequence_;
  Buffer tokens_;
  Buffer targets_;
};

}  // namespace nqd::engine

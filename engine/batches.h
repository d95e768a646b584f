// Micro-batches of one data-parallel rank.
#pragma once

#include <cstdint>
#include <span>

#include "base/ledger.h"
#include "engine/data/dataset.h"
#include "engine/data/sampler.h"

namespace nqd::engine {

// A target that counts for nothing: no loss, no gradient.
inline constexpr std::int32_t kMaskedTarget = -1;

// `wanted` of a file's `all` samples, evenly apart in file order, so that a short evaluation does
// not judge by the first document alone. wanted ≤ all.
struct HeldoutSamples {
  std::uint64_t wanted = 0;
  std::uint64_t all = 0;

  // The sample at position i < wanted: ⌊i · all / wanted⌋.
  std::uint64_t at(std::uint64_t i) const { return all / wanted * i + all % wanted * i / wanted; }
};

// Holds the tokens and targets of one micro-batch (tag kData: 2 × 4 bytes a token).
class MicroBatch {
 public:
  MicroBatch(std::int64_t sequences, std::int64_t sequence, MemoryLedger& ledger);

  // The samples at positions [first, first + sequences) of the run.
  void load_training(const TokenFile& file, const Sampler& sampler, std::uint64_t first);
  // Of an evaluation that reads `samples` of the file, those at [first, first + count), count ≤
  // sequences; the rest is masked.
  void load_heldout(const TokenFile& file, const HeldoutSamples& samples, std::uint64_t first,
                    std::int64_t count);

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

// Micro-batches of one data-parallel rank.
#pragma once

#include <cstdint>
#include <span>

#include "base/ledger.h"
#include "engine/data/sample_source.h"
#include "engine/data/sampler.h"
#include "planner/layout/activation_buffers.h"

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

// Holds the inputs and targets of one micro-batch (tag kData: 4 bytes a number).
class MicroBatch {
 public:
  MicroBatch(std::int64_t samples, const planner::SampleShape& shape, MemoryLedger& ledger);

  // The samples at positions [first, first + samples) of the run.
  void load_training(const SampleSource& source, const Sampler& sampler, std::uint64_t first);
  // Of an evaluation that reads `samples` of the source, those at [first, first + count), count ≤
  // the micro-batch's; the rest is masked.
  void load_heldout(const SampleSource& source, const HeldoutSamples& samples, std::uint64_t first,
                    std::int64_t count);

  std::span<const std::byte> inputs() const;
  std::span<const std::int32_t> targets() const;

 private:
  void load_sample(const SampleSource& source, std::uint64_t sample, std::int64_t place);
  std::span<std::byte> inputs_of(std::int64_t place);
  std::span<std::int32_t> targets_of(std::int64_t place);

  std::int64_t samples_;
  planner::SampleShape shape_;
  Buffer inputs_;
  Buffer targets_;
};

}  // namespace nqd::engine

#include "engine/batches.h"

#include <algorithm>
#include <cstddef>

namespace nqd::engine {
namespace {

std::size_t bytes(std::int64_t sequences, std::int64_t sequence) {
  return static_cast<std::size_t>(sequences * sequence) * sizeof(std::int32_t);
}

}  // namespace

MicroBatch::MicroBatch(std::int64_t sequences, std::int64_t sequence, MemoryLedger& ledger)
    : sequences_(sequences),
      sequence_(sequence),
      tokens_(&ledger, MemoryTag::kData, bytes(sequences, sequence)),
      targets_(&ledger, MemoryTag::kData, bytes(sequences, sequence)) {}

std::span<std::int32_t> MicroBatch::row_of(std::int32_t* base, std::int64_t row) {
  return {base + row * sequence_, static_cast<std::size_t>(sequence_)};
}

void MicroBatch::load_sample(const TokenFile& file, std::uint64_t sample, std::int64_t row) {
  file.sample(sample, sequence_, row_of(tokens_.as<std::int32_t>(), row),
              row_of(targets_.as<std::int32_t>(), row));
}

void MicroBatch::load_training(const TokenFile& file, const Sampler& sampler, std::uint64_t first) {
  for (std::int64_t row = 0; row < sequences_; ++row) {
    load_sample(file, sampler.at(first + static_cast<std::uint64_t>(row)), row);
  }
}

void MicroBatch::load_heldout(const TokenFile& file, const HeldoutSamples& samples,
                              std::uint64_t first, std::int64_t count) {
  for (std::int64_t row = 0; row < sequences_; ++row) {
    if (row < count) {
      load_sample(file, samples.at(first + static_cast<std::uint64_t>(row)), row);
    } else {
      std::ranges::fill(row_of(tokens_.as<std::int32_t>(), row), 0);
      std::ranges::fill(row_of(targets_.as<std::int32_t>(), row), kMaskedTarget);
    }
  }
}

std::span<const std::int32_t> MicroBatch::tokens() const {
  return {tokens_.as<std::int32_t>(), static_cast<std::size_t>(sequences_ * sequence_)};
}

std::span<const std::int32_t> MicroBatch::targets() const {
  return {targets_.as<std::int32_t>(), static_cast<std::size_t>(sequences_ * sequence_)};
}

}  // namespace nqd::engine

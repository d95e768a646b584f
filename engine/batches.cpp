#include "engine/batches.h"

#include <algorithm>
#include <cstddef>

namespace nqd::engine {
namespace {

constexpr std::int64_t kNumberBytes = 4;

std::size_t bytes(std::int64_t numbers) { return static_cast<std::size_t>(numbers * kNumberBytes); }

}  // namespace

MicroBatch::MicroBatch(std::int64_t samples, const planner::SampleShape& shape,
                       MemoryLedger& ledger)
    : samples_(samples),
      shape_(shape),
      inputs_(&ledger, MemoryTag::kData, bytes(samples * shape.inputs)),
      targets_(&ledger, MemoryTag::kData, bytes(samples * shape.targets)) {}

std::span<std::byte> MicroBatch::inputs_of(std::int64_t place) {
  return {inputs_.data() + bytes(place * shape_.inputs), bytes(shape_.inputs)};
}

std::span<std::int32_t> MicroBatch::targets_of(std::int64_t place) {
  return {targets_.as<std::int32_t>() + place * shape_.targets,
          static_cast<std::size_t>(shape_.targets)};
}

void MicroBatch::load_sample(const SampleSource& source, std::uint64_t sample, std::int64_t place) {
  source.load(sample, inputs_of(place), targets_of(place));
}

void MicroBatch::load_training(const SampleSource& source, const Sampler& sampler,
                               std::uint64_t first) {
  for (std::int64_t place = 0; place < samples_; ++place) {
    load_sample(source, sampler.at(first + static_cast<std::uint64_t>(place)), place);
  }
}

void MicroBatch::load_heldout(const SampleSource& source, const HeldoutSamples& samples,
                              std::uint64_t first, std::int64_t count) {
  for (std::int64_t place = 0; place < samples_; ++place) {
    if (place < count) {
      load_sample(source, samples.at(first + static_cast<std::uint64_t>(place)), place);
    } else {
      std::ranges::fill(inputs_of(place), std::byte{0});
      std::ranges::fill(targets_of(place), kMaskedTarget);
    }
  }
}

std::span<const std::byte> MicroBatch::inputs() const {
  return {inputs_.data(), bytes(samples_ * shape_.inputs)};
}

std::span<const std::int32_t> MicroBatch::targets() const {
  return {targets_.as<std::int32_t>(), static_cast<std::size_t>(samples_ * shape_.targets)};
}

}  // namespace nqd::engine

// What a training run reads its samples from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace nqd::engine {

class SampleSource {
 public:
  virtual ~SampleSource() = default;

  virtual std::uint64_t samples() const = 0;
  // Copies sample `index` as the model takes it: `inputs`, numbers of 4 bytes (tokens as int32, or
  // the features of all time steps as float32), and `targets` (planner::SampleShape has the
  // counts). Throws std::out_of_range for another index or size, and Error (kUsage, NQD2005) for a
  // value that the file must not hold.
  virtual void load(std::uint64_t index, std::span<std::byte> inputs,
                    std::span<std::int32_t> targets) const = 0;
};

}  // namespace nqd::engine

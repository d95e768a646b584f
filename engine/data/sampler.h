// Which sample a data-parallel rank reads at which step: a pure function of seed and position,
// independent of the number of ranks, hosts and workers.
//
// Positions 0, 1, 2, … run over epochs of `samples`; position p shows sample π(seed, epoch)(p mod
// N) in epoch p div N, where π is a permutation computed in O(1) memory (a keyed Feistel network
// with cycle walking). Step s (0-based) takes positions [sB, (s+1)B), on every mesh; which of them
// a rank takes, planner::leaf_index says (planner/layout/state_shape.h). A batch may straddle two
// epochs, so each sample is seen exactly once an epoch and no tail is padded or dropped.
#pragma once

#include <cstdint>

namespace nqd::engine {

// π(seed, epoch): a bijection on [0, n). n ≥ 1, index < n.
std::uint64_t permute(std::uint64_t index, std::uint64_t n, std::uint64_t seed,
                      std::uint64_t epoch);

class Sampler {
 public:
  // Throws Error (kUsage, NQD2007) when samples is 0.
  Sampler(std::uint64_t samples, std::uint64_t seed);
  std::uint64_t samples() const { return samples_; }
  // The sample at a global position.
  std::uint64_t at(std::uint64_t position) const;

 private:
  std::uint64_t samples_;
  std::uint64_t seed_;
};

}  // namespace nqd::engine

// What every rank of nqd's own engine sends on group "control", which has all of them: a ring
// all_reduce of kTotalsWords int64 each step and each evaluation, and at the end one of the step
// times. With guard.straggler_score ranks tell each other their times every guard.window steps, in
// time_sums more of the same size.
#pragma once

#include <cstddef>

namespace nqd::planner {

// Exact sums (engine/numerics/exact_sum.h: 71 words each) of losses, of squared gradients, and two
// more for the gradient noise scale; the number of tokens; how many ranks are asked to stop, find
// that a save is due, have written their part of a save, could not, have copied their part of one,
// or could not.
inline constexpr std::size_t kTotalsWords = 4 * 71 + 7;

// Of one rank: medians and spreads of four phases (engine/train/stragglers.h).
inline constexpr std::size_t kTimesOfRank = 8;
constexpr std::size_t time_sums(std::size_t ranks) noexcept {
  constexpr std::size_t kRanks = kTotalsWords / kTimesOfRank;
  return (ranks + kRanks - 1) / kRanks;
}

}  // namespace nqd::planner

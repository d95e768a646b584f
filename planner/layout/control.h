// What every rank of nqd's own engine sends on group "control", which has all of them: a ring
// all_reduce of int64 each step and each evaluation, and at the end one of the step times.
#pragma once

#include <cstddef>

namespace nqd::planner {

// Exact sums (engine/numerics/exact_sum.h: 71 words each) of losses, of squared gradients, and two
// more for the gradient noise scale; the number of tokens; how many ranks are asked to stop, find
// that a save is due, have written their part of a save, could not, have copied their part of one,
// or could not.
inline constexpr std::size_t kTotalsWords = 4 * 71 + 7;

}  // namespace nqd::planner

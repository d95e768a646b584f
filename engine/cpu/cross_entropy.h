// Softmax and cross-entropy over logits whose vocabulary may be split over ranks: no logits are
// gathered and no probabilities stored.
//
//   1. cross_entropy_maximum; the ranks' maxima are merged (all_reduce of maxima);
//   2. cross_entropy_sums; the ranks' sums are added in tree order, the targets' logits too (one
//      rank has a number, the others 0);
//   3. cross_entropy_losses, on every rank alike;
//   4. cross_entropy_backward turns each rank's logits into their gradients, in place.
//
// The sum over a row is one sum (order of lane_sum) per slice of the vocabulary and the tree of
// collectives/canonical/tree.h over slices. A rank's slices must be a node of it: then the result
// does not depend on the split, to the bit.
#pragma once

#include <cstdint>

#include "engine/cpu/storage.h"

namespace nqd::engine::cpu {

inline constexpr std::int32_t kNoTarget = -1;  // a masked row: no loss, no gradient

// Logits [rows, stride] of one rank: column c is vocabulary entry `first` + c. Columns from `valid`
// on are padding: ignored, their gradient 0.
struct LogitsShape {
  std::int64_t rows = 0;
  std::int64_t stride = 0;       // columns stored
  std::int64_t valid = 0;        // columns that are entries, 0 … stride
  std::int64_t first = 0;        // this rank's first entry
  std::int64_t slice_width = 0;  // columns of a slice
  std::int64_t slices = 1;       // of this rank; slice k is columns [k, k + 1) · slice_width
};

// maximum[row] over the valid columns; −∞ where there are none.
template <typename S>
void cross_entropy_maximum(Compute<S>* maximum, const S* logits, const LogitsShape& shape);

// sum[row] = Σ e^(logit − maximum[row]), target_logit[row] = the target's logit where this rank has
// it, else 0. Masked rows as well, whose target_logit is 0.
template <typename S>
void cross_entropy_sums(Compute<S>* sum, Compute<S>* target_logit, const S* logits,
                        const std::int32_t* targets, const Compute<S>* maximum,
                        const LogitsShape& shape);

// Both steps, where one rank has the whole vocabulary.
template <typename S>
void cross_entropy_statistics(Compute<S>* maximum, Compute<S>* sum, Compute<S>* target_logit,
                              const S* logits, const std::int32_t* targets,
                              const LogitsShape& shape);

// loss[row] = maximum − target_logit + log(sum) in double, in that order, 0 in masked rows.
template <typename T>
void cross_entropy_losses(double* loss, const T* maximum, const T* sum, const T* target_logit,
                          const std::int32_t* targets, std::int64_t rows);

// logits[row] becomes scale · (softmax − one_hot(target)), 0 in masked rows and padding.
template <typename S>
void cross_entropy_backward(S* logits, const std::int32_t* targets, const Compute<S>* maximum,
                            const Compute<S>* sum, Compute<S> scale, const LogitsShape& shape);

// The same of float32 logits, the gradient rounded to S, 16 bits: it begins where the row of logits
// does, so that its rows are 2 · stride elements of S apart. What follows it in a row is undefined.
template <typename S>
void cross_entropy_backward_narrow(float* logits, const std::int32_t* targets, const float* maximum,
                                   const float* sum, float scale, const LogitsShape& shape);

}  // namespace nqd::engine::cpu

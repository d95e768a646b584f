// Canonical reductions: the bits of the result are those of the one tree over all contributions
// (collectives/canonical/tree.h), whatever the number of ranks, the split of the contributions over
// them and the algorithm.
//
// n = ranks, S = bytes of one vector, part(i) = bytes of chunk_of(count, n, i), nodes(i) = partial
// sums that rank i cannot add further alone (layout.h).
//
// An even layout (every rank one node: micro-batches a rank a power of two, say) is one vector a
// rank, which is reduced as such by direct, or by messages: all_reduce by recursive_doubling,
// halving_doubling, tree or pairwise, reduce_scatter by pairwise. Bytes and steps are theirs
// (collectives/cost.h).
//
// Any other layout has every rank own a part of the vector: it gets that part of every node of the
// others, adds them, and hands out its part of the sum. As many rounds as the rank with most nodes
// has, each an all_to_all (pairwise or direct) of one node of every rank that has one left; at the
// end an all_gather:
//     sent by messages     nodes(i)·(S − part(i)), then as ring all_gather
//     moved by direct      (Σ nodes − nodes(i))·part(i), then S − part(i)
//     scratch              Σ nodes · part(i)
#pragma once

#include <cstddef>
#include <span>

#include "collectives/canonical/accumulator.h"
#include "collectives/canonical/layout.h"
#include "collectives/canonical/traffic.h"
#include "collectives/communicator.h"
#include "collectives/scratch.h"
#include "collectives/types.h"

namespace nqd::collectives {

// Collective. `out` of every rank receives the sum (kAvg: divided by the number of contributions,
// once, at the end) in the type of `mine`, which holds this rank's contributions, all added. All
// ranks give accumulators of equal count and type; a rank without contributions gives an empty one.
// `out` may be mine.vector(0), or does not overlap it. The partial sums of `mine` are left as they
// are otherwise.
//
// `algorithm`: kAuto is direct where it can run, else messages. Else one of those above; an uneven
// layout runs kDirect, or for any other of them kPairwise. Throws Error (kUsage): NQD2102 for
// another algorithm, NQD2103 for another operator, for an accumulator that is not complete or not
// of this layout, and for an `out` of another length.
void canonical_all_reduce(Communicator& world, Scratch& scratch, const ContributionLayout& layout,
                          Accumulator& mine, std::span<std::byte> out, ReduceOp op,
                          Algorithm algorithm = Algorithm::kAuto);

// Collective. The same; `out` receives this rank's part, chunk_of(count, ranks, rank).
void canonical_reduce_scatter(Communicator& world, Scratch& scratch,
                              const ContributionLayout& layout, Accumulator& mine,
                              std::span<std::byte> out, ReduceOp op,
                              Algorithm algorithm = Algorithm::kAuto);

}  // namespace nqd::collectives

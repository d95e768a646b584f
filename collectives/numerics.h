// What a reduction promises about its bits, and which algorithms keep the promise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/dtype.h"
#include "collectives/types.h"

namespace nqd::collectives {

// Both are deterministic: two runs on the same ranks have the same bits.
//   kCanonical  contributions are added in one fixed tree over their global index
//               (collectives/canonical/tree.h): the bits depend on the contributions alone, not on
//               how many ranks there are nor on what moves the data
//   kFast       any algorithm may run, and each adds in its own order
enum class Numerics : std::uint8_t { kCanonical, kFast };

std::string_view name(Numerics numerics);  // "canonical", "fast"
std::optional<Numerics> parse_numerics(std::string_view text);

// Whether nqd's `algorithm` (not kAuto) reduces one vector a rank to the bits of the canonical sum:
//   direct, pairwise                        always
//   tree                                    all_reduce, and reduce to rank 0, of types that are not
//                                           rounded between ranks (all but the half-width floats):
//                                           children are added nearest first
//   recursive_doubling, halving_doubling    all_reduce of such types on a power of two of ranks
//   all others                              such types on two ranks; integers on any; of the
//                                           library's own nothing is known
// Minimum and maximum are as the sum, unless NaNs or zeros of both signs meet. Collectives that do
// not reduce keep every promise.
bool is_canonical(Collective collective, Algorithm algorithm, std::size_t ranks,
                  DType type) noexcept;

// What a reduction of one vector a rank should run to be canonical: direct where the ranks reach
// each other's memory. Else all_reduce, up to kFewBytes of the full vector, where a saved step
// outweighs the bytes, takes recursive doubling or the tree; above halving-doubling or pairwise;
// reduce_scatter always pairwise, reduce the tree. Of half-width floats all_reduce is always
// pairwise. Nothing for a reduce of these, and kAuto for a collective that does not reduce.
std::optional<Algorithm> canonical_algorithm(Collective collective, std::size_t ranks,
                                             std::uint64_t bytes, DType type,
                                             bool reaches_memory) noexcept;
inline constexpr std::uint64_t kFewBytes = 8192;

}  // namespace nqd::collectives

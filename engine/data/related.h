// Texts that share long passages (revisions of one document, quotations): held-out text that
// training has seen would make the held-out loss look better than it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace nqd::engine {

// A sorted set of hashes, one for each run of 8 words that occurs in a text.
using Passages = std::vector<std::uint64_t>;

// Keeps the hashes that `keep_one_in` divides: 1 keeps all; more bounds the memory of large
// corpora. Sets that are compared need the same value.
Passages passages_of(std::string_view text, std::uint64_t keep_one_in = 1);

// Two texts are related when a quarter or more of the passages of the one with fewer occur in the
// other. Returns each text's group, numbered from 0 by first member: related texts, directly or
// through others, are in one group. A passage that more than 32 texts have in common is counted
// between neighbours in order alone, which keeps the work linear for boilerplate.
std::vector<std::size_t> related_groups(const std::vector<Passages>& texts);

}  // namespace nqd::engine

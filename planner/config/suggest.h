// Did-you-mean.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nqd::planner {

// Insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`, letter case
// ignored.
int edit_distance(std::string_view a, std::string_view b);

// The candidate that a person most likely meant: within two edits, or a third of the word's length
// when that is more (one edit for words of up to three letters), else the only candidate that
// `word` starts. Nothing when none is near.
std::optional<std::string> closest(std::string_view word,
                                   const std::vector<std::string_view>& candidates);

// "a, b, c".
std::string joined(const std::vector<std::string_view>& words, std::string_view separator = ", ");

}  // namespace nqd::planner

// Which text is held out: pure functions of content and seed, independent of paths and of the order
// in which files were given.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nqd::engine {

struct SplitCandidate {
  std::string sha256;  // distinct among the candidates
  std::uint64_t bytes = 0;
};

// True for each held-out candidate: at least one, never all, together at least `fraction` of the
// bytes. Candidates are drawn in the order of SHA-256(seed, content); one that would push the
// held-out share past the middle between `fraction` and everything is passed over. Where that
// cannot reach the share (one file is nearly all of the text), the largest file alone is held out,
// or else all but the smallest. Nothing when even that is not enough.
std::optional<std::vector<bool>> choose_heldout(std::span<const SplitCandidate> candidates,
                                                double fraction, std::uint64_t seed);

// Where one text is cut in two: just after the last line end that leaves at least `fraction` of the
// bytes (and at least one) behind it. Nothing when there is none.
std::optional<std::size_t> line_end_split(std::string_view text, double fraction);

}  // namespace nqd::engine

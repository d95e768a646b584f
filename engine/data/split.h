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

// A file, or files that belong together.
struct SplitCandidate {
  std::string sha256;  // of the content, distinct among the candidates; any text serves
  std::uint64_t bytes = 0;
};

// True for each held-out candidate: at least one, never all, together at least `fraction` of the
// bytes. Candidates are drawn in the order of SHA-256(seed, content), passing over those that would
// hold out much more than asked: more than 1.25 times the share, or 1.25², 1.25³ … where that is
// too strict, up to the middle between the share and everything. Where even that cannot reach the
// share (one candidate is nearly all of the text), the largest alone is held out, or else all but
// the smallest. Nothing when that is not enough either.
std::optional<std::vector<bool>> choose_heldout(std::span<const SplitCandidate> candidates,
                                                double fraction, std::uint64_t seed);

// Where one text is cut in two: just after the last line end that leaves at least `fraction` of the
// bytes (and at least one) behind it. Nothing when there is none.
std::optional<std::size_t> line_end_split(std::string_view text, double fraction);

}  // namespace nqd::engine

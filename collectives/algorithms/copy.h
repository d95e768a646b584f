// Copying a part of a vector to where it may already be.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>

namespace nqd::collectives {

// `to` and `from` are the same span or do not overlap; equal sizes.
inline void copy(std::span<std::byte> to, std::span<const std::byte> from) {
  if (to.data() != from.data() && !from.empty()) std::memcpy(to.data(), from.data(), from.size());
}

}  // namespace nqd::collectives

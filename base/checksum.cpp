#include "base/checksum.h"

#include <xxhash.h>

namespace nqd {

std::uint64_t xxh3_64(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::string hex64(std::uint64_t value) {
  std::string text(16, '0');
  for (std::size_t i = text.size(); i-- > 0; value >>= 4U)
    text[i] = "0123456789abcdef"[value & 15U];
  return text;
}

}  // namespace nqd

// XXH3 (https://github.com/Cyan4973/xxHash): finds damage at the speed of memory; no defence
// against intent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace nqd {

std::uint64_t xxh3_64(std::span<const std::byte> bytes);

// 16 digits, lower case.
std::string hex64(std::uint64_t value);

}  // namespace nqd

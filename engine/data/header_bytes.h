// Values in the headers of data files: little-endian, digests as 32 bytes.
#pragma once

#include <bit>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>

namespace nqd::engine {

static_assert(std::endian::native == std::endian::little,
              "data files are mapped as they are: little-endian machines only");

inline constexpr std::size_t kDigestBytes = 32;

template <typename T>
void put(std::string& header, T value) {
  header.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <typename T>
T get(std::string_view header, std::size_t offset) {
  T value;
  std::memcpy(&value, header.data() + offset, sizeof value);
  return value;
}

// The bytes of a digest in hexadecimal digits, and back.
void put_digest(std::string& header, std::string_view hex);
std::string get_digest(std::string_view header, std::size_t offset);

}  // namespace nqd::engine

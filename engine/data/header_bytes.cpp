#include "engine/data/header_bytes.h"

namespace nqd::engine {
namespace {

int hex_value(char digit) { return digit <= '9' ? digit - '0' : digit - 'a' + 10; }

}  // namespace

void put_digest(std::string& header, std::string_view hex) {
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    header += static_cast<char>(hex_value(hex[i]) * 16 + hex_value(hex[i + 1]));
  }
}

std::string get_digest(std::string_view header, std::size_t offset) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string text;
  for (const char byte : header.substr(offset, kDigestBytes)) {
    const auto value = static_cast<unsigned char>(byte);
    text += kHex[value >> 4];
    text += kHex[value & 15];
  }
  return text;
}

}  // namespace nqd::engine

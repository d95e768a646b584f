// The token file format: a 64-byte header, then the tokens, all little-endian.
//
//   offset  bytes  field
//        0      8  "NQDTOKEN"
//        8      4  format version, 1
//       12      4  bytes per token: 1 for a vocabulary up to 256, else 2
//       16      8  vocabulary
//       24      8  number of tokens
//       32     32  SHA-256 of the payload
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/file.h"

namespace nqd::engine {

inline constexpr std::size_t kTokenHeaderBytes = 64;
inline constexpr std::int64_t kMaxVocab = 65'536;

struct TokenHeader {
  std::int64_t vocab = 256;
  std::uint64_t tokens = 0;
  std::string digest;  // 64 hexadecimal digits
  std::size_t bytes_per_token() const { return vocab <= 256 ? 1 : 2; }
};

std::string encode_token_header(const TokenHeader& header);

// `bytes` is the beginning of a file of `file_bytes` bytes. Throws Error (kUsage, NQD2005) that
// names `path` unless the header is whole, known, consistent and agrees with the file's size.
TokenHeader decode_token_header(std::string_view bytes, std::uint64_t file_bytes,
                                const std::filesystem::path& path);

// A token file under construction. Errors are those of AtomicFile.
class TokenFileWriter {
 public:
  // vocab in [1, kMaxVocab].
  TokenFileWriter(const std::filesystem::path& path, std::int64_t vocab);
  // Raw payload: one byte a token, or two (little-endian) when vocab > 256. A whole number of
  // tokens.
  void append(std::string_view payload);
  std::uint64_t tokens() const { return header_.tokens; }
  // Completes the header and syncs, still under the temporary name. Returns the payload's SHA-256.
  std::string finish();
  // After finish().
  void commit() { file_.commit(); }

 private:
  AtomicFile file_;
  TokenHeader header_;
  Sha256 digest_;
};

}  // namespace nqd::engine

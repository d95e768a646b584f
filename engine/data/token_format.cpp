#include "engine/data/token_format.h"

#include "base/error.h"
#include "engine/data/header_bytes.h"

namespace nqd::engine {
namespace {

constexpr std::string_view kMagic = "NQDTOKEN";
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kDigestOffset = 32;

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& why) {
  throw Error(ExitCode::kUsage, "NQD2005", path.string() + " is not a usable token file: " + why,
              "write it again with `nqd data prepare`");
}

}  // namespace

std::string encode_token_header(const TokenHeader& header) {
  std::string text(kMagic);
  put(text, kVersion);
  put(text, static_cast<std::uint32_t>(header.bytes_per_token()));
  put(text, header.vocab);
  put(text, header.tokens);
  put_digest(text, header.digest);
  text.resize(kTokenHeaderBytes, '\0');
  return text;
}

TokenHeader decode_token_header(std::string_view bytes, std::uint64_t file_bytes,
                                const std::filesystem::path& path) {
  if (file_bytes == 0) refuse(path, "it is empty");
  if (!bytes.starts_with(kMagic)) refuse(path, "it does not begin with " + std::string(kMagic));
  if (bytes.size() < kTokenHeaderBytes) {
    refuse(path, "truncated: the header needs " + std::to_string(kTokenHeaderBytes) +
                     " bytes, the file has " + std::to_string(file_bytes));
  }
  if (const auto version = get<std::uint32_t>(bytes, 8); version != kVersion) {
    refuse(path, "format version " + std::to_string(version) + ", this nqd reads version " +
                     std::to_string(kVersion));
  }
  TokenHeader header;
  header.vocab = get<std::int64_t>(bytes, 16);
  header.tokens = get<std::uint64_t>(bytes, 24);
  header.digest = get_digest(bytes, kDigestOffset);
  if (header.vocab < 1 || header.vocab > kMaxVocab) {
    refuse(path, "vocabulary " + std::to_string(header.vocab) + ", expected 1 to " +
                     std::to_string(kMaxVocab));
  }
  if (const auto width = get<std::uint32_t>(bytes, 12); width != header.bytes_per_token()) {
    refuse(path, std::to_string(width) + " bytes a token, but a vocabulary of " +
                     std::to_string(header.vocab) + " takes " +
                     std::to_string(header.bytes_per_token()));
  }
  if (header.tokens == 0) refuse(path, "it holds no token");
  // Divided, not multiplied: a damaged count must not overflow into a plausible size.
  const std::uint64_t payload = file_bytes - kTokenHeaderBytes;
  if (payload / header.bytes_per_token() != header.tokens ||
      payload % header.bytes_per_token() != 0) {
    refuse(path, "the header states " + std::to_string(header.tokens) + " tokens of " +
                     std::to_string(header.bytes_per_token()) + " bytes, the file holds " +
                     std::to_string(payload) + " bytes after the header" +
                     (payload / header.bytes_per_token() < header.tokens ? " (truncated)" : ""));
  }
  return header;
}

TokenFileWriter::TokenFileWriter(const std::filesystem::path& path, std::int64_t vocab)
    : file_(path) {
  header_.vocab = vocab;
  file_.write(std::string(kTokenHeaderBytes, '\0'));
}

void TokenFileWriter::append(std::string_view payload) {
  file_.write(payload);
  digest_.update(payload);
  header_.tokens += payload.size() / header_.bytes_per_token();
}

std::string TokenFileWriter::finish() {
  header_.digest = digest_.hex();
  file_.overwrite(0, encode_token_header(header_));
  file_.sync();
  return header_.digest;
}

}  // namespace nqd::engine

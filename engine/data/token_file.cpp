#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "base/mapped_file.h"
#include "engine/data/dataset.h"
#include "engine/data/token_format.h"

namespace nqd::engine {

struct TokenFile::Impl {
  explicit Impl(const std::filesystem::path& file_path)
      : path(file_path),
        mapping(file_path, "check the path, or write the dataset with `nqd data prepare`"),
        header(decode_token_header(mapping.bytes().substr(0, kTokenHeaderBytes),
                                   mapping.bytes().size(), file_path)) {}

  std::string_view payload() const { return mapping.bytes().substr(kTokenHeaderBytes); }

  std::int32_t token(std::uint64_t index) const {
    const char* bytes = payload().data();
    if (header.bytes_per_token() == 1) return static_cast<unsigned char>(bytes[index]);
    std::uint16_t value = 0;
    std::memcpy(&value, bytes + 2 * index, sizeof value);
    return value;
  }

  // A token outside the vocabulary would index past the end of the embedding table.
  std::int32_t checked_token(std::uint64_t index) const {
    const std::int32_t value = token(index);
    if (value < header.vocab) return value;
    throw Error(ExitCode::kUsage, "NQD2005",
                path.string() + ": token " + std::to_string(index) + " is " +
                    std::to_string(value) + ", but the vocabulary is " +
                    std::to_string(header.vocab),
                "write it again with `nqd data prepare`");
  }

  std::filesystem::path path;
  MappedFile mapping;
  TokenHeader header;
};

TokenFile::TokenFile(const std::filesystem::path& path) : impl_(std::make_unique<Impl>(path)) {}
TokenFile::~TokenFile() = default;
TokenFile::TokenFile(TokenFile&&) noexcept = default;
TokenFile& TokenFile::operator=(TokenFile&&) noexcept = default;

std::uint64_t TokenFile::tokens() const { return impl_->header.tokens; }
std::int64_t TokenFile::vocab() const { return impl_->header.vocab; }
std::size_t TokenFile::bytes_per_token() const { return impl_->header.bytes_per_token(); }
const std::string& TokenFile::digest() const { return impl_->header.digest; }

std::span<const std::byte> TokenFile::payload() const {
  const std::string_view bytes = impl_->payload();
  return std::as_bytes(std::span(bytes.data(), bytes.size()));
}

void TokenFile::verify() const {
  const std::string found = sha256_hex(impl_->payload());
  if (found != digest()) {
    throw Error(ExitCode::kUsage, "NQD2005",
                impl_->path.string() +
                    " has changed since it was written: its header states SHA-256 " + digest() +
                    ", its content has " + found,
                "write it again with `nqd data prepare`");
  }
  for (std::uint64_t i = 0; i < tokens(); ++i) impl_->checked_token(i);
}

std::uint64_t TokenFile::samples(std::int64_t sequence) const {
  return sequence < 1 ? 0 : (tokens() - 1) / static_cast<std::uint64_t>(sequence);
}

void TokenFile::sample(std::uint64_t index, std::int64_t sequence, std::span<std::int32_t> tokens,
                       std::span<std::int32_t> targets) const {
  const auto length = static_cast<std::size_t>(std::max<std::int64_t>(sequence, 0));
  if (index >= samples(sequence) || tokens.size() != length || targets.size() != length) {
    throw std::out_of_range("TokenFile::sample: sample " + std::to_string(index) + " of " +
                            std::to_string(samples(sequence)) + ", sequence " +
                            std::to_string(sequence));
  }
  const std::uint64_t first = index * length;
  for (std::size_t i = 0; i < length; ++i) {
    tokens[i] = impl_->checked_token(first + i);
    targets[i] = impl_->checked_token(first + i + 1);
  }
}

}  // namespace nqd::engine

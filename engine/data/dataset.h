// Prepared token data: written by `nqd data prepare`, read by the trainer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace nqd::engine {

struct PrepareOptions {
  // Files, or folders whose regular files are taken in name order (links followed, duplicates by
  // content dropped). Empty: /usr/share/common-licenses.
  std::vector<std::filesystem::path> inputs;
  std::filesystem::path output;    // folder; created
  double heldout_fraction = 0.1;   // whole files held out, at least one, at least this share of bytes
  std::uint64_t seed = 1234;       // which files are held out
};

struct PreparedDocument {
  std::string path;
  std::string sha256;
  std::uint64_t tokens = 0;
  std::uint64_t offset = 0;  // first token in its split's file
  std::string split;         // "train" or "heldout"
};

struct PrepareResult {
  std::vector<PreparedDocument> documents;
  std::vector<std::string> duplicates;  // "GPL (same content as GPL-3)"
  std::uint64_t train_tokens = 0;
  std::uint64_t heldout_tokens = 0;
  std::string digest;  // SHA-256 over both token files' payloads
};

// Byte-level tokens (vocabulary 256) into OUTPUT/{train,heldout}.tokens and OUTPUT/dataset.json (the
// index). All written whole or not at all. One input file alone is split by position at a line end
// and said so. Throws Error (kUsage NQD2001 unreadable, NQD2003 nothing to read, NQD2004 not enough
// text for two splits; kFault NQD4003 disk full).
PrepareResult prepare_dataset(const PrepareOptions& options);

// A token file mapped read-only. Throws Error (kUsage): NQD2001 missing/unreadable, NQD2005 empty,
// not a token file, truncated (expected and found bytes), or a changed payload when `verify`.
class TokenFile {
 public:
  explicit TokenFile(const std::filesystem::path& path);
  ~TokenFile();
  TokenFile(TokenFile&&) noexcept;
  TokenFile& operator=(TokenFile&&) noexcept;

  std::uint64_t tokens() const;
  std::int64_t vocab() const;
  const std::string& digest() const;  // SHA-256 of the payload as the header states it
  void verify() const;                // recompute and compare; throws Error NQD2005
  // Sample i: tokens [i·sequence, i·sequence + sequence] (the last is only a target).
  std::uint64_t samples(std::int64_t sequence) const;
  // Copies sample i: `sequence` inputs and the `sequence` targets that follow them.
  void sample(std::uint64_t index, std::int64_t sequence, std::span<std::int32_t> tokens,
              std::span<std::int32_t> targets) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// dataset.json beside the token files.
struct DatasetIndex {
  std::vector<PreparedDocument> documents;
  std::string digest;
  std::int64_t vocab = 256;
};
// Throws Error (kUsage, NQD2006) with the path and what is wrong.
DatasetIndex read_dataset_index(const std::filesystem::path& folder);

}  // namespace nqd::engine

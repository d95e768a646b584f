// Prepared token data: written by `nqd data prepare`, read by the trainer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace nqd::engine {

struct PrepareOptions {
  // Files, or folders whose regular files are taken in name order (links followed, sub-folders not
  // entered, duplicates by content dropped). Empty: /usr/share/common-licenses.
  std::vector<std::filesystem::path> inputs;
  std::filesystem::path output;  // folder; created
  // Whole files held out, at least one, never all, at least this share of bytes. In (0, 1). Files
  // that share long passages (engine/data/related.h) go to one split wherever that is possible.
  double heldout_fraction = 0.1;
  std::uint64_t seed = 1234;  // which files are held out
};

struct PreparedDocument {
  std::string path;
  std::string sha256;  // of the bytes in the token file: of a part when one file was split
  std::uint64_t tokens = 0;
  std::uint64_t offset = 0;  // first token in its split's file
  std::string split;         // "train" or "heldout"
};

struct PrepareResult {
  std::vector<PreparedDocument> documents;  // train first, each split in the order of its file
  std::vector<std::string> duplicates;      // "GPL (same content as GPL-3)"
  // What a person should know: an empty file or dangling link left out, files kept in one split,
  // one file split by position, a held-out share far above the one asked for.
  std::vector<std::string> notes;
  std::uint64_t train_tokens = 0;
  std::uint64_t heldout_tokens = 0;
  std::string digest;  // SHA-256 over the payload of train, then of heldout
};

// Byte-level tokens (vocabulary 256) into OUTPUT/{train,heldout}.tokens and OUTPUT/dataset.json
// (the index). All three are complete on the disk under temporary names before the first is
// renamed, so a full disk leaves an earlier dataset as it was, and a new folder does not appear.
// One input file alone is split by position at a line end and said so. Throws Error (kUsage NQD2001
// unreadable, NQD2002 output not writable, NQD2003 nothing to read, NQD2004 not enough text for two
// splits, NQD2008 held-out share out of range; kFault NQD4003 disk full).
PrepareResult prepare_dataset(const PrepareOptions& options);

// A token file mapped read-only. Throws Error (kUsage): NQD2001 missing/unreadable, NQD2005 empty,
// not a token file, truncated (expected and found bytes). The constructor reads the header alone;
// `verify` reads everything. A file that another process shortens while it is mapped ends this
// process with SIGBUS: `prepare_dataset` never does, it renames.
class TokenFile {
 public:
  explicit TokenFile(const std::filesystem::path& path);
  ~TokenFile();
  TokenFile(TokenFile&&) noexcept;
  TokenFile& operator=(TokenFile&&) noexcept;

  std::uint64_t tokens() const;
  std::int64_t vocab() const;
  std::size_t bytes_per_token() const;  // 1 (vocabulary up to 256) or 2
  const std::string& digest() const;    // SHA-256 of the payload as the header states it
  std::span<const std::byte> payload() const;
  // Recomputes the digest and compares every token with the vocabulary; throws Error NQD2005.
  void verify() const;
  // How many whole samples there are: sample i is tokens [i·sequence, i·sequence + sequence] (the
  // last is only a target). 0 when sequence < 1.
  std::uint64_t samples(std::int64_t sequence) const;
  // Copies sample i: `sequence` inputs and the `sequence` targets that follow them. Throws
  // std::out_of_range when index >= samples(sequence) or a span is not `sequence` long, and Error
  // NQD2005 for a token outside the vocabulary.
  void sample(std::uint64_t index, std::int64_t sequence, std::span<std::int32_t> tokens,
              std::span<std::int32_t> targets) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// One token file as the index knows it.
struct IndexedFile {
  std::uint64_t tokens = 0;
  std::string sha256;  // of the payload
};

// dataset.json beside the token files.
struct DatasetIndex {
  std::vector<PreparedDocument> documents;
  std::string digest;
  std::int64_t vocab = 256;
  IndexedFile train;
  IndexedFile heldout;
};
// Throws Error (kUsage, NQD2006) with the path and what is wrong.
DatasetIndex read_dataset_index(const std::filesystem::path& folder);

}  // namespace nqd::engine

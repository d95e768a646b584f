// Reads a complete generation, on any mesh, every byte against its checksum.
#pragma once

#include <cstdint>
#include <filesystem>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/checkpoint/manifest.h"
#include "engine/checkpoint/storage.h"

namespace nqd::engine {

// A difference between a generation's files and its manifest.
struct CheckpointDamage {
  std::string file;
  std::uint64_t begin = 0;  // of the bytes that are not as they were written
  std::uint64_t end = 0;
  std::vector<std::string> tensors;  // whose values lie there: "moments.0 of head.weight"
  std::string what;                  // a sentence
};

class CheckpointReader {
 public:
  // Checks the manifest against its digest. Throws Error (kUsage): NQD2080 for a folder that is no
  // complete generation, NQD2081, NQD2082 for a damaged manifest. `storage` must outlive it.
  CheckpointReader(const Storage& storage, std::filesystem::path folder);

  const Manifest& manifest() const { return manifest_; }
  const std::filesystem::path& folder() const { return folder_; }
  // SHA-256 of the manifest: names the generation and all it holds.
  const std::string& manifest_sha256() const { return manifest_sha256_; }

  // Elements [begin, begin + out.size()) of a tensor. Uses memory for a few blocks, whatever the
  // tensor's size. Throws Error (kUsage): NQD2082 for bytes that fail their checksum, with file,
  // tensors and byte range, NQD2083 for a file that is missing or cut.
  void read(Quantity quantity, const std::string& tensor, std::int64_t begin,
            std::span<float> out) const;

  // All damage of all files, or of one by its place in the manifest; empty: every byte is as it was
  // written.
  std::vector<CheckpointDamage> verify() const;
  std::vector<CheckpointDamage> verify_file(std::size_t file) const;

 private:
  struct Place {
    std::size_t file = 0;
    const CheckpointPart* part = nullptr;
  };
  // A file that is open, with the block of it that was read last.
  struct OpenFile {
    std::size_t file = 0;
    std::unique_ptr<StorageInput> input;
    std::uint64_t block = ~std::uint64_t{0};
    std::vector<std::byte> bytes;
  };

  OpenFile& opened(std::size_t file) const;
  std::size_t size_of_block(std::size_t file, std::uint64_t block) const;
  // Checks what it has read; what fails is in `out` all the same.
  void read_block(const OpenFile& open, std::uint64_t block, std::span<std::byte> out) const;
  void load_block(OpenFile& open, std::uint64_t block) const;
  // Bytes of a file, through its blocks.
  void read_bytes(std::size_t file, std::uint64_t begin, std::span<std::byte> out) const;
  void read_part(const Place& place, std::int64_t begin, std::span<float> out,
                 std::int64_t& found) const;
  CheckpointDamage damage(std::size_t file, std::uint64_t begin, std::uint64_t end) const;

  const Storage& storage_;
  std::filesystem::path folder_;
  std::string manifest_sha256_;
  Manifest manifest_;
  std::map<std::pair<Quantity, std::string>, std::vector<Place>> places_;
  mutable std::list<OpenFile> open_;  // the last used first
};

}  // namespace nqd::engine

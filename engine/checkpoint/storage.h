// The file operations that checkpoints are made of, one virtual call each, so that tests can fail,
// tear, record and reorder them. A path means the same to every rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace nqd::engine {

// Written from its start to its end; closed by the destructor. What no sync followed may be
// missing.
class StorageFile {
 public:
  virtual ~StorageFile() = default;
  virtual void write(std::span<const std::byte> bytes) = 0;
  // What was written is on the disk.
  virtual void sync() = 0;
};

class StorageInput {
 public:
  virtual ~StorageInput() = default;
  virtual std::uint64_t size() const = 0;
  // Precondition: offset + out.size() ≤ size().
  virtual void read(std::uint64_t offset, std::span<std::byte> out) const = 0;
  // Later reads come from the disk, not from memory, where the system allows to ask for that; of
  // one thread at a time.
  virtual void drop_cache() const = 0;
};

// Throws Error: kFault NQD4003 for what could not be written, kUsage NQD2001 for what could not be
// read.
class Storage {
 public:
  virtual ~Storage() = default;
  // New, or emptied.
  virtual std::unique_ptr<StorageFile> create(const std::filesystem::path& path) = 0;
  virtual std::unique_ptr<StorageInput> open(const std::filesystem::path& path) const = 0;
  // With its parents, the name of each new one on the disk; one that exists is left as it is.
  virtual void make_folder(const std::filesystem::path& path) = 0;
  // Replaces `to`.
  virtual void rename(const std::filesystem::path& from, const std::filesystem::path& to) = 0;
  // The names in the folder are on the disk.
  virtual void sync_folder(const std::filesystem::path& path) = 0;
  // A file or an empty folder; nothing when it is not there.
  virtual void remove(const std::filesystem::path& path) = 0;
  // Throws NQD2001 where that cannot be told.
  virtual bool exists(const std::filesystem::path& path) const = 0;
  // Whether the path itself is a symbolic link. Throws as exists does.
  virtual bool is_link(const std::filesystem::path& path) const = 0;
  // Names in a folder, sorted; none when it is not there.
  virtual std::vector<std::string> list(const std::filesystem::path& path) const = 0;
};

// The file system of this machine.
Storage& disk();

// A whole small file.
std::string read_text(const Storage& storage, const std::filesystem::path& path);
// Writes `text` under another name, syncs it, renames it to `path` and syncs the folder.
void replace_text(Storage& storage, const std::filesystem::path& path, const std::string& text);

}  // namespace nqd::engine

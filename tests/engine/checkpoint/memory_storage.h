// A file system in memory that logs its operations, so that every state in which a crash may leave
// the disk can be made: operations that no sync has covered may be lost, torn or out of order
// (Pillai et al., "All file systems are not created equal", OSDI 2014).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/checkpoint/storage.h"

namespace nqd::testing {

class MemoryStorage final : public engine::Storage {
 public:
  std::unique_ptr<engine::StorageFile> create(const std::filesystem::path& path) override;
  std::unique_ptr<engine::StorageInput> open(const std::filesystem::path& path) const override;
  void make_folder(const std::filesystem::path& path) override;
  void rename(const std::filesystem::path& from, const std::filesystem::path& to) override;
  void sync_folder(const std::filesystem::path& path) override;
  void remove(const std::filesystem::path& path) override;
  bool exists(const std::filesystem::path& path) const override;
  bool is_link(const std::filesystem::path&) const override { return false; }
  std::vector<std::string> list(const std::filesystem::path& path) const override;

  std::size_t operations() const { return log_.size(); }
  // The disk after a crash behind the first `count` operations. `survives(operation)` decides what
  // became of each that no sync covers; of a write, whether it is whole, torn in its middle or
  // lost.
  enum class Fate { kDone, kTorn, kLost };
  MemoryStorage crashed(std::size_t count, const std::function<Fate(std::size_t)>& survives) const;

  // Bytes of a file, to be damaged.
  std::string& bytes(const std::filesystem::path& path);
  std::vector<std::string> files() const;
  // The operation with this number, from 0, throws an Error, and all after it; −1: none.
  void fail_at(std::int64_t operation) { fails_at_ = operation; }
  // Breaks the promise of Storage::make_folder.
  void forget_new_folders() { syncs_new_folders_ = false; }

 private:
  friend class MemoryFile;
  enum class Kind { kBind, kUnbind, kWrite, kSyncFile, kSyncFolder };
  struct Operation {
    Kind kind;
    std::string path;  // of binds, unbinds and folders
    std::size_t inode = 0;
    std::string bytes;
    std::size_t group = 0;  // both halves of a rename have one fate
  };
  static constexpr std::size_t kFolder = 0;  // the inode of every folder

  void record(Operation operation);
  void apply(const Operation& operation);
  bool is_covered(std::size_t index, std::size_t count) const;

  std::map<std::string, std::size_t> entries_;  // path → inode
  std::vector<std::string> inodes_{""};
  std::vector<Operation> log_;
  std::size_t groups_ = 0;
  std::int64_t fails_at_ = -1;
  bool syncs_new_folders_ = true;
};

}  // namespace nqd::testing

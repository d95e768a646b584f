// One process at a time in a folder.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace nqd::engine {

class FolderLock {
 public:
  enum class AtEnd { kStays, kVanishes };  // what becomes of the file, and of folders that it made

  // Makes the folder of `file` with its parents, and holds an exclusive lock on `file`, which names
  // this process; the kernel releases it when the process ends, however it ends. `option` is what
  // users set to have another folder. Throws Error: kUsage NQD2002 when folder or file cannot be
  // made or written, kEnvironment NQD2010 when another process, which it names, holds the lock,
  // kFault NQD4003 when the disk fails; a full one is none.
  FolderLock(std::filesystem::path file, const std::string& option, AtEnd at_end);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  // The folders that were not there, the deepest first.
  const std::vector<std::filesystem::path>& made() const { return made_; }

 private:
  bool take(const std::string& option);
  void make_folders(const std::string& option);
  bool is_still_there() const;
  void close();

  const std::filesystem::path file_;
  const AtEnd at_end_;
  int descriptor_ = -1;
  std::vector<std::filesystem::path> made_;
};

}  // namespace nqd::engine

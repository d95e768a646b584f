#include "engine/io/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace nqd::engine {
namespace {

[[noreturn]] void throw_unwritable(const std::filesystem::path& path, const std::string& why,
                                   const std::string& option) {
  throw Error(ExitCode::kUsage, "NQD2002", "cannot write " + path.string() + ": " + why,
              "give " + option + " a folder that exists or can be made, and that you may write");
}

}  // namespace

FolderLock::FolderLock(std::filesystem::path file, const std::string& option, AtEnd at_end)
    : file_(std::move(file)), at_end_(at_end) {
  while (!take(option)) {
  }
  const std::string pid = std::to_string(::getpid());
  if (::ftruncate(descriptor_, 0) == 0 && ::pwrite(descriptor_, pid.data(), pid.size(), 0) > 0) {
    return;
  }
  // Its own writes will tell who needs room there.
  if (errno == ENOSPC || errno == EDQUOT) return;
  const std::string why = std::strerror(errno);
  close();
  throw Error(ExitCode::kFault, "NQD4003", "writing " + file_.string() + " failed: " + why,
              "free space on that file system");
}

FolderLock::~FolderLock() {
  if (at_end_ == AtEnd::kVanishes) {
    ::unlink(file_.c_str());
    for (const std::filesystem::path& folder : made_) ::rmdir(folder.c_str());
  }
  close();
}

void FolderLock::close() { ::close(std::exchange(descriptor_, -1)); }

void FolderLock::make_folders(const std::string& option) {
  std::error_code error;
  for (std::filesystem::path folder = file_.parent_path();
       !folder.empty() && !std::filesystem::exists(folder, error); folder = folder.parent_path()) {
    made_.push_back(folder);
  }
  std::filesystem::create_directories(file_.parent_path(), error);
  if (error) throw_unwritable(file_.parent_path(), error.message(), option);
}

// False where the holder before removed the file meanwhile: the lock is on a file without a name.
bool FolderLock::take(const std::string& option) {
  make_folders(option);
  descriptor_ = ::open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor_ < 0) throw_unwritable(file_, std::strerror(errno), option);
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) {
    if (is_still_there()) return true;
    close();
    return false;
  }
  std::array<char, 32> holder{};
  [[maybe_unused]] auto got = ::pread(descriptor_, holder.data(), holder.size() - 1, 0);
  close();
  throw Error(ExitCode::kEnvironment, "NQD2010",
              "another run (process " + std::string(holder.data()) + ") is using " +
                  file_.parent_path().string(),
              "wait for it, or give this run another " + option);
}

bool FolderLock::is_still_there() const {
  struct stat own {};
  struct stat named {};
  return ::fstat(descriptor_, &own) == 0 && ::stat(file_.c_str(), &named) == 0 &&
         own.st_ino == named.st_ino && own.st_dev == named.st_dev;
}

}  // namespace nqd::engine

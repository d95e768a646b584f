#include "engine/checkpoint/storage.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>

#include "engine/checkpoint/disk_files.h"

namespace nqd::engine {
namespace {

// 0 for a path that is there.
int error_of(const std::filesystem::path& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? 0 : errno;
}

class Disk final : public Storage {
 public:
  std::unique_ptr<StorageFile> create(const std::filesystem::path& path) override {
    return std::make_unique<DiskFile>(path);
  }

  std::unique_ptr<StorageInput> open(const std::filesystem::path& path) const override {
    return std::make_unique<DiskInput>(path);
  }

  void make_folder(const std::filesystem::path& path) override {
    if (path.empty() || error_of(path) == 0) return;
    make_folder(path.parent_path());
    // Another rank may have made it meanwhile.
    if (::mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) throw_unwritten(path, errno);
    sync_folder(path.has_parent_path() ? path.parent_path() : ".");
  }

  void rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    if (std::rename(from.c_str(), to.c_str()) != 0) throw_unwritten(to, errno);
  }

  void sync_folder(const std::filesystem::path& path) override {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) throw_unwritten(path, errno);
    const int error = ::fsync(descriptor) == 0 ? 0 : errno;
    ::close(descriptor);
    // Some file systems cannot sync a folder; a failing disk says something else.
    if (error != 0 && error != EINVAL && error != ENOTSUP) throw_unwritten(path, error);
  }

  void remove(const std::filesystem::path& path) override {
    if (std::remove(path.c_str()) != 0 && errno != ENOENT) throw_unwritten(path, errno);
  }

  bool exists(const std::filesystem::path& path) const override {
    const int error = error_of(path);
    // A disk that fails is no disk without saves: a run would start anew.
    if (error != 0 && error != ENOENT && error != ENOTDIR) throw_unread(path, error);
    return error == 0;
  }

  bool is_link(const std::filesystem::path& path) const override {
    struct stat info {};
    if (::lstat(path.c_str(), &info) == 0) return S_ISLNK(info.st_mode);
    if (errno != ENOENT && errno != ENOTDIR) throw_unread(path, errno);
    return false;
  }

  std::vector<std::string> list(const std::filesystem::path& path) const override {
    std::error_code error;
    std::vector<std::string> names;
    for (std::filesystem::directory_iterator entry(path, error), end; !error && entry != end;
         entry.increment(error)) {
      names.push_back(entry->path().filename().string());
    }
    if (error && error.value() != ENOENT) throw_unread(path, error.value());
    std::sort(names.begin(), names.end());
    return names;
  }
};

}  // namespace

Storage& disk() {
  static Disk storage;
  return storage;
}

std::string read_text(const Storage& storage, const std::filesystem::path& path) {
  const std::unique_ptr<StorageInput> file = storage.open(path);
  std::string text(file->size(), '\0');
  file->read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

void replace_text(Storage& storage, const std::filesystem::path& path, const std::string& text) {
  std::filesystem::path temporary = path;
  temporary += ".new";
  {
    const std::unique_ptr<StorageFile> file = storage.create(temporary);
    file->write(std::as_bytes(std::span(text)));
    file->sync();
  }
  storage.rename(temporary, path);
  storage.sync_folder(path.parent_path());
}

}  // namespace nqd::engine

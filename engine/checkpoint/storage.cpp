#include "engine/checkpoint/storage.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>

#include "base/error.h"

namespace nqd::engine {
namespace {

[[noreturn]] void throw_unwritten(const std::filesystem::path& path, int error) {
  throw Error(ExitCode::kFault, "NQD4003",
              "writing " + path.string() + " failed: " + std::strerror(error),
              "free space on that file system and check its permissions; older generations are "
              "untouched");
}

[[noreturn]] void throw_unread(const std::filesystem::path& path, int error) {
  throw Error(ExitCode::kUsage, "NQD2001",
              "cannot read " + path.string() + ": " + std::strerror(error),
              "check the path and its permissions");
}

// 0 for a path that is there.
int error_of(const std::filesystem::path& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? 0 : errno;
}

class DiskFile final : public StorageFile {
 public:
  explicit DiskFile(std::filesystem::path path) : path_(std::move(path)) {
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (descriptor_ < 0) throw_unwritten(path_, errno);
  }
  ~DiskFile() override { ::close(descriptor_); }
  DiskFile(const DiskFile&) = delete;
  DiskFile& operator=(const DiskFile&) = delete;

  void write(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t put = ::write(descriptor_, bytes.data(), bytes.size());
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) throw_unwritten(path_, errno);
      bytes = bytes.subspan(static_cast<std::size_t>(put));
      written_ += static_cast<std::uint64_t>(put);
    }
    start_writing_out();
  }

  void sync() override {
    if (::fsync(descriptor_) != 0) throw_unwritten(path_, errno);
  }

 private:
  static constexpr std::uint64_t kAtOnce = std::uint64_t{8} << 20;

  // The disk works while the next bytes are made, not only when sync() asks. What fails is told by
  // sync().
  void start_writing_out() {
    if (written_ - started_ < kAtOnce) return;
    ::sync_file_range(descriptor_, static_cast<off64_t>(started_),
                      static_cast<off64_t>(written_ - started_), SYNC_FILE_RANGE_WRITE);
    started_ = written_;
  }

  std::filesystem::path path_;
  int descriptor_ = -1;
  std::uint64_t written_ = 0;
  std::uint64_t started_ = 0;  // of it, what is on its way to the disk
};

class DiskInput final : public StorageInput {
 public:
  explicit DiskInput(std::filesystem::path path) : path_(std::move(path)) {
    // A pipe without a writer would block the open.
    descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat info {};
    if (descriptor_ < 0 || ::fstat(descriptor_, &info) != 0) {
      const int error = errno;
      if (descriptor_ >= 0) ::close(descriptor_);
      throw_unread(path_, error);
    }
    if (!S_ISREG(info.st_mode)) {
      ::close(descriptor_);
      throw_unread(path_, S_ISDIR(info.st_mode) ? EISDIR : EINVAL);
    }
    size_ = static_cast<std::uint64_t>(info.st_size);
    // The disk reads further ahead of reads that follow one another.
    ::posix_fadvise(descriptor_, 0, 0, POSIX_FADV_SEQUENTIAL);
  }
  ~DiskInput() override { ::close(descriptor_); }
  DiskInput(const DiskInput&) = delete;
  DiskInput& operator=(const DiskInput&) = delete;

  std::uint64_t size() const override { return size_; }

  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    while (!out.empty()) {
      const ssize_t got = ::pread(descriptor_, out.data(), out.size(), static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) throw_unread(path_, got < 0 ? errno : EIO);
      out = out.subspan(static_cast<std::size_t>(got));
      offset += static_cast<std::uint64_t>(got);
    }
  }

  void drop_cache() const override { ::posix_fadvise(descriptor_, 0, 0, POSIX_FADV_DONTNEED); }

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

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

#include "engine/checkpoint/disk_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/write_hint.h"

namespace nqd::engine {
namespace {

// What the page cache holds of a file at most, not yet on its way to the disk.
constexpr std::uint64_t kAtOnce = std::uint64_t{8} << 20;

// Whether transfers of the descriptor go past the page cache from now on, as asked.
bool set_direct(int descriptor, bool direct) {
  return ::fcntl(descriptor, F_SETFL, direct ? O_DIRECT : 0) == 0;
}

}  // namespace

void throw_unwritten(const std::filesystem::path& path, int error) {
  throw Error(ExitCode::kFault, "NQD4003",
              "writing " + path.string() + " failed: " + std::strerror(error),
              write_hint(error) + "; older generations are untouched");
}

void throw_unread(const std::filesystem::path& path, int error) {
  throw Error(ExitCode::kUsage, "NQD2001",
              "cannot read " + path.string() + ": " + std::strerror(error),
              "check the path and its permissions");
}

DiskFile::DiskFile(std::filesystem::path path) : path_(std::move(path)) {
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor_ < 0) throw_unwritten(path_, errno);
}

DiskFile::~DiskFile() { ::close(descriptor_); }

void DiskFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t count = std::min(bytes.size(), PageBuffer::kBytes - used_);
    std::memcpy(buffer_.data() + used_, bytes.data(), count);
    used_ += count;
    bytes = bytes.subspan(count);
    if (used_ == PageBuffer::kBytes) flush();
  }
}

void DiskFile::sync() {
  flush();
  if (::fsync(descriptor_) != 0) throw_unwritten(path_, errno);
}

void DiskFile::flush() {
  // The rest of a file has no length that suits the disk.
  const bool direct = used_ == PageBuffer::kBytes && !refused_;
  if (direct != direct_) {
    if (set_direct(descriptor_, direct)) direct_ = direct;
    refused_ = refused_ || direct != direct_;
  }
  put(std::span(buffer_.data(), used_));
  used_ = 0;
  if (!direct_) start_writing_out();
}

void DiskFile::put(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(descriptor_, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && errno == EINVAL && direct_) {
      refused_ = true;
      direct_ = !set_direct(descriptor_, false);
      if (!direct_) continue;
    }
    if (put < 0) throw_unwritten(path_, errno);
    bytes = bytes.subspan(static_cast<std::size_t>(put));
    written_ += static_cast<std::uint64_t>(put);
  }
}

// The disk works while the next bytes are made, not only when sync() asks. What fails is told by
// sync().
void DiskFile::start_writing_out() {
  if (written_ - started_ < kAtOnce) return;
  ::sync_file_range(descriptor_, static_cast<off64_t>(started_),
                    static_cast<off64_t>(written_ - started_), SYNC_FILE_RANGE_WRITE);
  started_ = written_;
}

DiskInput::DiskInput(std::filesystem::path path) : path_(std::move(path)) {
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

DiskInput::~DiskInput() { ::close(descriptor_); }

void DiskInput::read(std::uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const std::size_t got = read_some(offset, out);
    out = out.subspan(got);
    offset += got;
  }
}

// At least one byte.
std::size_t DiskInput::read_some(std::uint64_t offset, std::span<std::byte> out) const {
  while (true) {
    const std::size_t before = direct_ ? offset % PageBuffer::kAlignment : 0;
    const ssize_t got =
        direct_ ? ::pread(descriptor_, direct_->data(), PageBuffer::kBytes,
                          static_cast<off_t>(offset - before))
                : ::pread(descriptor_, out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EINVAL && direct_ && set_direct(descriptor_, false)) {
      direct_.reset();
      continue;
    }
    if (got <= static_cast<ssize_t>(before)) throw_unread(path_, got < 0 ? errno : EIO);
    if (!direct_) return static_cast<std::size_t>(got);
    const std::size_t count = std::min(out.size(), static_cast<std::size_t>(got) - before);
    std::memcpy(out.data(), direct_->data() + before, count);
    return count;
  }
}

void DiskInput::drop_cache() const {
  ::posix_fadvise(descriptor_, 0, 0, POSIX_FADV_DONTNEED);
  if (!direct_ && set_direct(descriptor_, true)) direct_ = std::make_unique<PageBuffer>();
}

}  // namespace nqd::engine

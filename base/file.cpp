#include "base/file.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace nqd {
namespace {

std::string reason() { return std::strerror(errno); }

[[noreturn]] void throw_unreadable(const std::filesystem::path& path, const std::string& why) {
  throw Error(ExitCode::kUsage, "NQD2001", "cannot read " + path.string() + ": " + why,
              "check the path and its permissions");
}

[[noreturn]] void throw_write_failed(const std::filesystem::path& path) {
  throw Error(ExitCode::kFault, "NQD4003", "writing " + path.string() + " failed: " + reason(),
              "free space on that file system; nothing was replaced");
}

void sync_folder_of(const std::filesystem::path& path) {
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;  // some file systems refuse; the rename itself has happened
  ::fsync(descriptor);
  ::close(descriptor);
}

}  // namespace

std::string read_file(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) throw_unreadable(path, reason());
  struct stat info{};
  if (::fstat(descriptor, &info) != 0 || S_ISDIR(info.st_mode)) {
    ::close(descriptor);
    throw_unreadable(path, "it is a folder, not a file");
  }
  std::string text;
  std::array<char, 1 << 16> block{};
  for (;;) {
    const ssize_t got = ::read(descriptor, block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      const std::string why = reason();
      ::close(descriptor);
      throw_unreadable(path, why);
    }
    if (got == 0) break;
    text.append(block.data(), static_cast<std::size_t>(got));
  }
  ::close(descriptor);
  return text;
}

AtomicFile::AtomicFile(std::filesystem::path path) : path_(std::move(path)) {
  temporary_ = path_;
  temporary_ += ".tmp." + std::to_string(::getpid());
  const bool is_folder = std::filesystem::is_directory(path_);
  if (!is_folder) {
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  }
  if (descriptor_ < 0) {
    throw Error(ExitCode::kUsage, "NQD2002",
                "cannot write " + path_.string() + ": " +
                    (is_folder ? std::string("it is a folder") : reason()),
                "give an output path in a folder that exists and can be written");
  }
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(descriptor_, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) throw_write_failed(path_);
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
}

void AtomicFile::commit() {
  if (::fsync(descriptor_) != 0) throw_write_failed(path_);
  if (::close(std::exchange(descriptor_, -1)) != 0 ||
      ::rename(temporary_.c_str(), path_.c_str()) != 0) {
    ::unlink(temporary_.c_str());
    throw_write_failed(path_);
  }
  sync_folder_of(path_);
}

void write_file(const std::filesystem::path& path, std::string_view bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

std::string sha256_hex(std::string_view bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, EVP_sha256(), nullptr) != 1) {
    throw Error(ExitCode::kFault, "NQD4004", "SHA-256 failed in libcrypto");
  }
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string text;
  for (unsigned int i = 0; i < size; ++i) {
    text += kHex[digest.at(i) >> 4];
    text += kHex[digest.at(i) & 15];
  }
  return text;
}

}  // namespace nqd

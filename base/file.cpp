#include "base/file.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/write_hint.h"

namespace nqd {
namespace {

std::string reason() { return std::strerror(errno); }

[[noreturn]] void throw_unreadable(const std::filesystem::path& path, const std::string& why) {
  throw Error(ExitCode::kUsage, "NQD2001", "cannot read " + path.string() + ": " + why,
              "check the path and its permissions");
}

[[noreturn]] void throw_unwritable(const std::filesystem::path& path, const std::string& why) {
  throw Error(ExitCode::kUsage, "NQD2002", "cannot write " + path.string() + ": " + why,
              "give an output path in a folder that exists and can be written");
}

[[noreturn]] void throw_write_failed(const std::filesystem::path& path, int error) {
  throw Error(ExitCode::kFault, "NQD4003",
              "writing " + path.string() + " failed: " + std::strerror(error),
              write_hint(error) + "; nothing was replaced");
}

// Closes a descriptor on every way out.
class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return value_; }

 private:
  int value_;
};

void sync_folder_of(const std::filesystem::path& path) {
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  const Descriptor descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Some file systems refuse to sync a folder; the rename itself has happened.
  if (descriptor.get() >= 0) ::fsync(descriptor.get());
}

void ignore_file_size_signal() {
  struct sigaction current {};
  if (::sigaction(SIGXFSZ, nullptr, &current) == 0 && current.sa_handler == SIG_DFL) {
    ::signal(SIGXFSZ, SIG_IGN);
  }
}

// The mode of the file that will be replaced; nothing when there is none. Throws when the path
// names something that a rename must never replace.
std::optional<mode_t> mode_of_replaced(const std::filesystem::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return std::nullopt;
  if (S_ISDIR(info.st_mode)) throw_unwritable(path, "it is a folder");
  if (!S_ISREG(info.st_mode)) throw_unwritable(path, "it is a device or a pipe, not a file");
  return info.st_mode & 07777;
}

}  // namespace

std::string read_file(const std::filesystem::path& path) {
  const Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (descriptor.get() < 0) throw_unreadable(path, reason());
  struct stat info {};
  if (::fstat(descriptor.get(), &info) != 0) throw_unreadable(path, reason());
  if (S_ISDIR(info.st_mode)) throw_unreadable(path, "it is a folder, not a file");
  if (!S_ISREG(info.st_mode) && !S_ISFIFO(info.st_mode)) {
    throw_unreadable(path, "it is a device, not a file");
  }
  std::string text;
  text.reserve(static_cast<std::size_t>(info.st_size));
  std::array<char, 1 << 16> block{};
  for (;;) {
    const ssize_t got = ::read(descriptor.get(), block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_unreadable(path, reason());
    if (got == 0) return text;
    text.append(block.data(), static_cast<std::size_t>(got));
  }
}

AtomicFile::AtomicFile(std::filesystem::path path) : path_(std::move(path)) {
  ignore_file_size_signal();
  const std::optional<mode_t> mode = mode_of_replaced(path_);
  // A rename would replace the link, not the file that it names.
  if (mode && std::filesystem::is_symlink(path_)) path_ = std::filesystem::canonical(path_);
  static std::atomic<unsigned> g_counter = 0;
  temporary_ = path_;
  temporary_ += ".tmp." + std::to_string(::getpid()) + "." + std::to_string(g_counter++);
  descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor_ < 0) throw_unwritable(path_, reason());
  // Keeping a private file private is worth a try; a file system without modes may refuse.
  if (mode) [[maybe_unused]]
    const int result = ::fchmod(descriptor_, *mode);
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
    if (put < 0) throw_write_failed(path_, errno);
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
}

void AtomicFile::overwrite(std::uint64_t offset, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put =
        ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) throw_write_failed(path_, errno);
    bytes.remove_prefix(static_cast<std::size_t>(put));
    offset += static_cast<std::uint64_t>(put);
  }
}

void AtomicFile::sync() {
  if (::fsync(descriptor_) != 0) throw_write_failed(path_, errno);
}

void AtomicFile::commit() {
  sync();
  if (::close(std::exchange(descriptor_, -1)) != 0 ||
      ::rename(temporary_.c_str(), path_.c_str()) != 0) {
    const int why = errno;
    ::unlink(temporary_.c_str());
    throw_write_failed(path_, why);
  }
  sync_folder_of(path_);
}

void write_file(const std::filesystem::path& path, std::string_view bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~State() { EVP_MD_CTX_free(context); }
};

namespace {

void check_digest(int result) {
  if (result != 1) throw Error(ExitCode::kFault, "NQD4004", "SHA-256 failed in libcrypto");
}

}  // namespace

Sha256::Sha256() : state_(std::make_unique<State>()) {
  check_digest(EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr));
}

Sha256::~Sha256() = default;

void Sha256::update(std::string_view bytes) {
  check_digest(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()));
}

std::string Sha256::hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  check_digest(EVP_DigestFinal_ex(state_->context, digest.data(), &size));
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string text;
  for (unsigned int i = 0; i < size; ++i) {
    text += kHex[digest.at(i) >> 4];
    text += kHex[digest.at(i) & 15];
  }
  return text;
}

std::string sha256_hex(std::string_view bytes) {
  Sha256 digest;
  digest.update(bytes);
  return digest.hex();
}

}  // namespace nqd

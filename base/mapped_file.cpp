#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace nqd {

MappedFile::MappedFile(const std::filesystem::path& path, const std::string& hint) {
  // A pipe without a writer would block the open.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat info {};
  std::string why;
  if (descriptor < 0 || ::fstat(descriptor, &info) != 0) {
    why = std::strerror(errno);
  } else if (!S_ISREG(info.st_mode)) {
    why = "it is not a regular file";
  } else if (info.st_size > 0) {
    size_ = static_cast<std::size_t>(info.st_size);
    void* address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (address == MAP_FAILED) why = std::strerror(errno);
    data_ = address == MAP_FAILED ? nullptr : static_cast<const char*>(address);
  }
  if (descriptor >= 0) ::close(descriptor);
  if (!why.empty()) {
    throw Error(ExitCode::kUsage, "NQD2001", "cannot read " + path.string() + ": " + why, hint);
  }
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<char*>(data_), size_);
}

}  // namespace nqd

#include "base/line_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/write_hint.h"

namespace nqd {

LineFile::LineFile(std::filesystem::path path) : path_(std::move(path)) {
  std::error_code ignored;
  if (std::filesystem::is_regular_file(path_, ignored)) {
    const std::string text = read_file(path_);
    first_line_ = text.substr(0, text.find('\n'));
    if (!text.empty() && text.back() != '\n') torn_at_ = text.rfind('\n') + 1;  // npos + 1 is 0
  }
  constexpr mode_t kMode = 0666;  // less the umask
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, kMode);
  if (descriptor_ >= 0) return;
  throw Error(ExitCode::kUsage, "NQD2002",
              "cannot write " + path_.string() + ": " + std::strerror(errno),
              "give an output path in a folder that exists and can be written");
}

LineFile::~LineFile() { ::close(descriptor_); }

void LineFile::append(std::string_view line) {
  std::string text(line);
  text += '\n';
  std::string_view rest = text;
  bool failed = torn_at_ != kWhole && ::ftruncate(descriptor_, static_cast<off_t>(torn_at_)) != 0;
  torn_at_ = kWhole;
  while (!rest.empty() && !failed) {
    const ssize_t written = ::write(descriptor_, rest.data(), rest.size());
    if (written >= 0) {
      rest.remove_prefix(static_cast<std::size_t>(written));
    } else {
      failed = errno != EINTR;
    }
  }
  // A pipe or terminal has nothing to sync.
  failed = failed || (::fsync(descriptor_) != 0 && errno != EINVAL && errno != EROFS);
  if (!failed) return;
  const int error = errno;
  throw Error(ExitCode::kFault, "NQD4003",
              "writing " + path_.string() + " failed: " + std::strerror(error),
              write_hint(error) + ", or give another path");
}

}  // namespace nqd

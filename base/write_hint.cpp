#include "base/write_hint.h"

#include <cerrno>

namespace nqd {

std::string write_hint(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return "free space on that file system, or raise the quota or limit on it";
    case EACCES:
    case EPERM:
    case EROFS:
      return "make the folder writable for this user";
    case EMFILE:
    case ENFILE:
      return "raise the limit of open files (ulimit -n)";
    case ENOENT:
    case ENOTDIR:
    case ENOTEMPTY:
      return "somebody else changes that folder: give every run one of its own";
    default:
      return "check that file system and its disk";
  }
}

}  // namespace nqd

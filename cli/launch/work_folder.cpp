#include "cli/launch/work_folder.h"

#include <unistd.h>

#include <system_error>

namespace nqd::cli {

WorkFolder::WorkFolder(const std::string& name)
    : path_(std::filesystem::temp_directory_path() /
            ("nqd_" + name + "_" + std::to_string(::getpid()))) {
  std::filesystem::create_directories(path_);
}

WorkFolder::~WorkFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace nqd::cli

// A temporary folder of this process's own, gone with it.
#pragma once

#include <filesystem>
#include <string>

namespace nqd::cli {

class WorkFolder {
 public:
  // "nqd_NAME_PID" in the system's temporary folder.
  explicit WorkFolder(const std::string& name);
  ~WorkFolder();
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace nqd::cli

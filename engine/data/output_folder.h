// A folder that a command writes to.
#pragma once

#include <filesystem>
#include <vector>

namespace nqd::engine {

// Folders that this run creates disappear again, unless they are kept.
class OutputFolder {
 public:
  // Throws Error (kUsage, NQD2002) when the folder cannot be created.
  explicit OutputFolder(const std::filesystem::path& folder);
  ~OutputFolder() { remove_created(); }
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  void keep() { created_.clear(); }

 private:
  void remove_created();

  std::vector<std::filesystem::path> created_;
};

}  // namespace nqd::engine

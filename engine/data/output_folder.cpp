#include "engine/data/output_folder.h"

#include <system_error>

#include "base/error.h"

namespace nqd::engine {

namespace fs = std::filesystem;

OutputFolder::OutputFolder(const fs::path& folder) {
  for (fs::path at = folder; !at.empty() && !fs::exists(at); at = at.parent_path()) {
    created_.push_back(at);
  }
  std::error_code failure;
  fs::create_directories(folder, failure);
  if (!fs::is_directory(folder)) {
    remove_created();
    throw Error(ExitCode::kUsage, "NQD2002",
                "cannot create the folder " + folder.string() + ": " +
                    (failure ? failure.message() : "a file of that name exists"),
                "give an output path in a folder that exists and can be written");
  }
}

// Innermost first; remove() leaves a folder alone that is not empty.
void OutputFolder::remove_created() {
  std::error_code ignored;
  for (const fs::path& folder : created_) fs::remove(folder, ignored);
}

}  // namespace nqd::engine

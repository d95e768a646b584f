// Keeps other runs out of the folders that a run saves to.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "engine/io/folder_lock.h"

namespace nqd::engine {

// Makes and locks a folder of generations; `option` is what sets it. So it is also known that it
// can be written. Throws what FolderLock does, and NQD4003.
std::unique_ptr<FolderLock> lock_checkpoints(const std::filesystem::path& folder,
                                             const std::string& option);

struct CheckpointLocks {
  std::unique_ptr<FolderLock> folder;
  std::unique_ptr<FolderLock> durable;
};
// Of a run's checkpoint.path and checkpoint.durable_path, which may be empty.
CheckpointLocks lock_checkpoints_of_run(const std::filesystem::path& folder,
                                        const std::filesystem::path& durable);

}  // namespace nqd::engine

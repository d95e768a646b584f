#include "engine/checkpoint/locks.h"

#include <system_error>

#include "engine/checkpoint/storage.h"

namespace nqd::engine {

std::unique_ptr<FolderLock> lock_checkpoints(const std::filesystem::path& folder,
                                             const std::string& option) {
  auto lock = std::make_unique<FolderLock>(folder / ".checkpoints.lock", option,
                                           FolderLock::AtEnd::kVanishes);
  // Saves rely on the names of folders that they find.
  for (const std::filesystem::path& made : lock->made()) {
    disk().sync_folder(made.has_parent_path() ? made.parent_path() : ".");
  }
  return lock;
}

CheckpointLocks lock_checkpoints_of_run(const std::filesystem::path& folder,
                                        const std::filesystem::path& durable) {
  CheckpointLocks locks;
  locks.folder = lock_checkpoints(folder, "checkpoint.path");
  std::error_code error;
  // One folder for both is refused with the reason by who opens them.
  if (durable.empty() || std::filesystem::equivalent(folder, durable, error)) return locks;
  locks.durable = lock_checkpoints(durable, "checkpoint.durable_path");
  return locks;
}

}  // namespace nqd::engine

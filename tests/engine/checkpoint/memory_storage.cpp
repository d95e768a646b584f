#include "tests/engine/checkpoint/memory_storage.h"

#include <cstring>
#include <utility>

#include "base/error.h"

namespace nqd::testing {
namespace {

std::string folder_of(const std::string& path) {
  return std::filesystem::path(path).parent_path().string();
}

class MemoryInput final : public engine::StorageInput {
 public:
  explicit MemoryInput(std::string bytes) : bytes_(std::move(bytes)) {}
  std::uint64_t size() const override { return bytes_.size(); }
  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    if (!out.empty()) std::memcpy(out.data(), bytes_.data() + offset, out.size());
  }
  void drop_cache() const override {}

 private:
  std::string bytes_;
};

}  // namespace

class MemoryFile final : public engine::StorageFile {
 public:
  MemoryFile(MemoryStorage& storage, std::size_t inode) : storage_(storage), inode_(inode) {}
  void write(std::span<const std::byte> bytes) override {
    storage_.record({MemoryStorage::Kind::kWrite,
                     "",
                     inode_,
                     {reinterpret_cast<const char*>(bytes.data()), bytes.size()}});
  }
  void sync() override { storage_.record({MemoryStorage::Kind::kSyncFile, "", inode_, ""}); }

 private:
  MemoryStorage& storage_;
  std::size_t inode_;
};

void MemoryStorage::record(Operation operation) {
  if (fails_at_ >= 0 && static_cast<std::int64_t>(log_.size()) >= fails_at_) {
    throw Error(ExitCode::kFault, "NQD4003", "the disk of the test is full", "");
  }
  if (operation.group == 0) operation.group = ++groups_;
  apply(operation);
  log_.push_back(std::move(operation));
}

void MemoryStorage::apply(const Operation& operation) {
  switch (operation.kind) {
    case Kind::kBind:
      entries_[operation.path] = operation.inode;
      break;
    case Kind::kUnbind:
      entries_.erase(operation.path);
      break;
    case Kind::kWrite:
      inodes_[operation.inode] += operation.bytes;
      break;
    default:
      break;
  }
}

std::unique_ptr<engine::StorageFile> MemoryStorage::create(const std::filesystem::path& path) {
  inodes_.emplace_back();
  record({Kind::kBind, path.string(), inodes_.size() - 1, ""});
  return std::make_unique<MemoryFile>(*this, inodes_.size() - 1);
}

std::unique_ptr<engine::StorageInput> MemoryStorage::open(const std::filesystem::path& path) const {
  const auto entry = entries_.find(path.string());
  if (entry == entries_.end() || entry->second == kFolder) {
    throw Error(ExitCode::kUsage, "NQD2001", "cannot read " + path.string(), "");
  }
  return std::make_unique<MemoryInput>(inodes_[entry->second]);
}

void MemoryStorage::make_folder(const std::filesystem::path& path) {
  if (path.has_parent_path() && path.parent_path() != path) make_folder(path.parent_path());
  if (entries_.contains(path.string())) return;
  record({Kind::kBind, path.string(), kFolder, ""});
  if (syncs_new_folders_) sync_folder(path.parent_path());
}

void MemoryStorage::rename(const std::filesystem::path& from, const std::filesystem::path& to) {
  const std::size_t inode = entries_.at(from.string());
  const std::size_t group = ++groups_;
  record({Kind::kBind, to.string(), inode, "", group});
  record({Kind::kUnbind, from.string(), inode, "", group});
}

void MemoryStorage::sync_folder(const std::filesystem::path& path) {
  record({Kind::kSyncFolder, path.string(), kFolder, ""});
}

void MemoryStorage::remove(const std::filesystem::path& path) {
  if (entries_.contains(path.string())) record({Kind::kUnbind, path.string(), kFolder, ""});
}

bool MemoryStorage::exists(const std::filesystem::path& path) const {
  return entries_.contains(path.string());
}

std::vector<std::string> MemoryStorage::list(const std::filesystem::path& path) const {
  std::vector<std::string> names;
  for (const auto& [entry, inode] : entries_) {
    if (folder_of(entry) == path.string()) {
      names.push_back(std::filesystem::path(entry).filename().string());
    }
  }
  return names;
}

bool MemoryStorage::is_covered(std::size_t index, std::size_t count) const {
  const Operation& operation = log_[index];
  for (std::size_t later = index + 1; later < count; ++later) {
    const Operation& sync = log_[later];
    if (operation.kind == Kind::kWrite) {
      if (sync.kind == Kind::kSyncFile && sync.inode == operation.inode) return true;
    } else if (sync.kind == Kind::kSyncFolder && sync.path == folder_of(operation.path)) {
      return true;
    }
  }
  return false;
}

MemoryStorage MemoryStorage::crashed(std::size_t count,
                                     const std::function<Fate(std::size_t)>& survives) const {
  MemoryStorage disk;
  disk.inodes_.resize(inodes_.size());
  std::map<std::size_t, Fate> fates;
  for (std::size_t index = 0; index < count; ++index) {
    Operation operation = log_[index];
    if (!is_covered(index, count)) {
      const auto [fate, added] = fates.emplace(operation.group, Fate::kDone);
      if (added) fate->second = survives(index);
      if (fate->second == Fate::kLost) continue;
      if (fate->second == Fate::kTorn && operation.kind == Kind::kWrite) {
        operation.bytes.resize(operation.bytes.size() / 2);
      }
    }
    disk.apply(operation);
  }
  // What lies in a folder whose name was lost is lost with it. A path comes behind its parents.
  std::erase_if(disk.entries_, [&](const auto& entry) {
    for (std::string folder = folder_of(entry.first); folder != "/"; folder = folder_of(folder)) {
      if (!disk.entries_.contains(folder)) return true;
    }
    return false;
  });
  return disk;
}

std::string& MemoryStorage::bytes(const std::filesystem::path& path) {
  return inodes_[entries_.at(path.string())];
}

std::vector<std::string> MemoryStorage::files() const {
  std::vector<std::string> files;
  for (const auto& [entry, inode] : entries_) {
    if (inode != kFolder) files.push_back(entry);
  }
  return files;
}

}  // namespace nqd::testing

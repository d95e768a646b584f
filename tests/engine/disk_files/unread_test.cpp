// A disk that fails to be read is no disk without saves, and none whose saves are damaged.
#include <doctest/doctest.h>

#include <cerrno>

#include "base/error.h"
#include "engine/checkpoint/disk_files.h"
#include "engine/checkpoint/keep.h"
#include "tests/engine/checkpoint/memory_storage.h"
#include "tests/engine/checkpoint/toy.h"

using namespace nqd;

namespace {

const std::filesystem::path kRoot = "/run/checkpoints";

// Files with this name cannot be read.
class UnreadStorage final : public engine::Storage {
 public:
  explicit UnreadStorage(engine::Storage& below) : below_(below) {}

  std::unique_ptr<engine::StorageFile> create(const std::filesystem::path& path) override {
    return below_.create(path);
  }
  std::unique_ptr<engine::StorageInput> open(const std::filesystem::path& path) const override {
    if (path == unread) engine::throw_unread(path, EIO);
    return below_.open(path);
  }
  void make_folder(const std::filesystem::path& path) override { below_.make_folder(path); }
  void rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    below_.rename(from, to);
  }
  void sync_folder(const std::filesystem::path& path) override { below_.sync_folder(path); }
  void remove(const std::filesystem::path& path) override { below_.remove(path); }
  bool exists(const std::filesystem::path& path) const override { return below_.exists(path); }
  bool is_link(const std::filesystem::path& path) const override { return below_.is_link(path); }
  std::vector<std::string> list(const std::filesystem::path& path) const override {
    return below_.list(path);
  }

  std::filesystem::path unread;

 private:
  engine::Storage& below_;
};

std::vector<std::string> left(const engine::Storage& storage) {
  std::vector<std::string> names;
  for (const engine::GenerationInfo& one : engine::list_generations(storage, kRoot)) {
    names.push_back(one.name);
  }
  return names;
}

}  // namespace

TEST_CASE("what cannot be read is not removed") {
  testing::MemoryStorage disk;
  UnreadStorage storage(disk);
  for (const std::int64_t step : {10, 20, 30}) testing::save_toy(storage, kRoot, step, {});
  const std::vector<std::string> all = left(storage);
  // Step 40 is complete, and LATEST does not name it yet: the last save was cut there.
  const std::string latest = engine::read_text(disk, kRoot / engine::kLatest);
  testing::save_toy(storage, kRoot, 40, {});
  engine::replace_text(disk, kRoot / engine::kLatest, latest);

  storage.unread = kRoot / engine::kLatest;
  CHECK(engine::prune(storage, kRoot, {1, 0}).empty());
  storage.unread = kRoot / all[1] / engine::kManifest;
  CHECK(engine::prune(storage, kRoot, {1, 0}) == std::vector<std::string>{all[0]});
  storage.unread.clear();
  CHECK(engine::prune(storage, kRoot, {1, 0}) == std::vector<std::string>{all[1]});
  CHECK(left(storage) == std::vector<std::string>{all[2], engine::generation_name(40, "00c0ffee")});
}

TEST_CASE("a path that cannot be looked up is not taken for one that is not there") {
  // A name longer than any file system allows.
  const std::filesystem::path path = std::filesystem::path("/tmp") / std::string(5000, 'x');
  CHECK_THROWS_AS(engine::disk().exists(path), Error);
  CHECK_FALSE(engine::disk().exists("/tmp/there-is-no/such-file"));
}

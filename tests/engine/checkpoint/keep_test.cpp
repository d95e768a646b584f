// Which generations stay: the newest of the run that LATEST names, and those kept for good.
#include "engine/checkpoint/keep.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "base/error.h"
#include "tests/engine/checkpoint/memory_storage.h"
#include "tests/engine/checkpoint/toy.h"
#include "tests/temporary_folder.h"

using namespace nqd;
using testing::MemoryStorage;

namespace {

const std::filesystem::path kRoot = "/run/checkpoints";

using Names = std::vector<std::string>;

Names left_in(const MemoryStorage& storage) {
  Names names;
  for (const auto& one : engine::list_generations(storage, kRoot)) names.push_back(one.name);
  return names;
}

std::string a(std::int64_t step) { return engine::generation_name(step, "aaaaaaaa"); }
std::string b(std::int64_t step) { return engine::generation_name(step, "bbbbbbbb"); }

void save_a(MemoryStorage& storage, std::int64_t step) {
  testing::save_toy(storage, kRoot, step, {}, "aaaaaaaa");
}

// Of a run that went on from step 20 of run a.
void save_b(MemoryStorage& storage, std::int64_t step) {
  testing::save_toy(storage, kRoot, step, {}, "bbbbbbbb", {a(20)});
}

}  // namespace

TEST_CASE("the first of every interval stays, whatever order the clock gave") {
  MemoryStorage storage;
  const auto save = [&](std::int64_t step, const std::string& time) {
    testing::save_toy(storage, kRoot, step, {}, "aaaaaaaa", {}, "2026-11-30T" + time + "Z");
  };
  save(10, "07:59:59");
  save(20, "08:00:00");
  save(30, "08:40:00");
  save(40, "09:10:00");
  save(50, "09:05:00");  // the clock was set back
  save(60, "11:30:00");
  save(70, "11:40:00");
  save(80, "11:50:00");
  const engine::KeepPolicy hourly{1, 0, 3600};
  const Names kept = {a(10), a(20), a(50), a(60), a(80)};
  engine::prune(storage, kRoot, hourly);
  CHECK(left_in(storage) == kept);
  CHECK(engine::prune(storage, kRoot, hourly).empty());
}

TEST_CASE("a time that is none is kept by no interval") {
  MemoryStorage storage;
  testing::save_toy(storage, kRoot, 10, {}, "aaaaaaaa", {}, "yesterday");
  save_a(storage, 20);
  engine::prune(storage, kRoot, {1, 0, 3600});
  CHECK(left_in(storage) == Names{a(20)});
}

TEST_CASE("what a run left behind goes once it has a generation of its own") {
  MemoryStorage storage;
  for (const std::int64_t step : {10, 20, 30, 40, 50}) save_a(storage, step);
  storage.make_folder(kRoot / a(60));  // cut short by the end of run a
  SUBCASE("not before") {
    storage.make_folder(kRoot / b(25));
    engine::prune(storage, kRoot, {5, 0, 0});
    CHECK(left_in(storage) == Names{a(10), a(20), a(30), a(40), a(50), a(60)});
  }
  SUBCASE("but they do not take the places of the newest") {
    save_b(storage, 25);
    engine::prune(storage, kRoot, {2, 0, 0});
    CHECK(left_in(storage) == Names{a(20), b(25)});
    save_b(storage, 35);
    engine::prune(storage, kRoot, {3, 0, 0});
    CHECK(left_in(storage) == Names{a(20), b(25), b(35)});
  }
  SUBCASE("what is kept for good stays, and what is in use") {
    save_b(storage, 25);
    engine::prune(storage, kRoot, {1, 40, 0}, {a(30)});
    CHECK(left_in(storage) == Names{b(25), a(30), a(40)});
  }
  SUBCASE("whole generations of a run that LATEST's knows nothing of stay") {
    testing::save_toy(storage, kRoot, 25, {}, "bbbbbbbb");
    testing::save_toy(storage, kRoot, 26, {}, "bbbbbbbb");
    CHECK(engine::prune(storage, kRoot, {1, 0, 0}) == Names{b(25)});
    CHECK(left_in(storage) == Names{a(10), a(20), b(26), a(30), a(40), a(50), a(60)});
  }
  SUBCASE("a later generation that LATEST does not name yet stays") {
    const std::string latest = engine::read_text(storage, kRoot / "LATEST");
    testing::save_toy(storage, kRoot, 70, {}, "bbbbbbbb", {a(50)});
    engine::replace_text(storage, kRoot / "LATEST", latest);
    engine::prune(storage, kRoot, {2, 0, 0});
    CHECK(left_in(storage) == Names{a(50), b(70)});
  }
}

TEST_CASE("what a run saved that ended before LATEST named it goes; that of a stranger stays") {
  MemoryStorage storage;
  save_a(storage, 20);
  testing::save_toy(storage, kRoot, 25, {}, "cccccccc", {a(20)});
  testing::save_toy(storage, kRoot, 40, {}, "dddddddd", {a(20)});
  testing::save_toy(storage, kRoot, 50, {}, "eeeeeeee");
  save_b(storage, 30);
  CHECK(engine::prune(storage, kRoot, {1, 0, 0}).size() == 3);
  const Names kept = {b(30), engine::generation_name(50, "eeeeeeee")};
  CHECK(left_in(storage) == kept);
}

TEST_CASE("where LATEST's generation has lost a file, the newest whole one stays") {
  MemoryStorage storage;
  for (const std::int64_t step : {10, 20, 30}) save_a(storage, step);
  const std::filesystem::path file = kRoot / a(30) / "rank-00000.safetensors";
  SUBCASE("gone") { storage.remove(file); }
  SUBCASE("cut") { storage.bytes(file).pop_back(); }
  const auto last = engine::list_generations(storage, kRoot).back();
  CHECK(!last.complete);
  CHECK(!last.cut);
  CHECK(last.why.find("rank-00000.safetensors") != std::string::npos);
  CHECK(engine::prune(storage, kRoot, {1, 0, 0}) == Names{a(10)});
  CHECK(left_in(storage) == Names{a(20), a(30)});
}

TEST_CASE("a missing LATEST is not a folder without saves") {
  MemoryStorage storage;
  for (const std::int64_t step : {10, 20}) save_a(storage, step);
  storage.remove(kRoot / "LATEST");
  const auto found = engine::find_generations(storage, kRoot);
  REQUIRE(found.size() == 2);
  CHECK(found[0].folder == kRoot / a(20));
  CHECK(found[0].warning.find("LATEST is missing") != std::string::npos);
  CHECK(found[1].folder == kRoot / a(10));
  for (const std::int64_t step : {10, 20}) storage.remove(kRoot / a(step) / "manifest.sha256");
  CHECK_THROWS_AS(engine::find_generation(storage, kRoot), Error);
  for (const std::int64_t step : {10, 20}) storage.remove(kRoot / a(step) / "manifest.json");
  CHECK(!engine::find_generation(storage, kRoot));
}

TEST_CASE("a link is removed, and what it leads to stays") {
  const testing::TemporaryFolder folder;
  engine::Storage& disk = engine::disk();
  const std::filesystem::path away = folder.path() / "away";
  const std::filesystem::path root = folder.path() / "checkpoints";
  for (const std::int64_t step : {10, 20}) testing::save_toy(disk, root, step, {}, "aaaaaaaa");
  std::filesystem::rename(root / a(10), away);
  std::filesystem::create_directory_symlink(away, root / a(10));
  CHECK(engine::prune(disk, root, {1, 0, 0}) == Names{a(10)});
  CHECK(!disk.is_link(root / a(10)));
  CHECK(engine::CheckpointReader(disk, away).verify().empty());
}

TEST_CASE("what a save that was cut short left goes on demand, whatever its step") {
  MemoryStorage storage;
  save_a(storage, 10);
  for (const std::int64_t step : {5, 20}) {
    storage.make_folder(kRoot / b(step));
    storage.create(kRoot / b(step) / "rank-00000.safetensors");
  }
  storage.remove(kRoot / a(10) / "rank-00000.safetensors");
  CHECK(engine::remove_cut(storage, kRoot) == Names{b(5), b(20)});
  CHECK(left_in(storage) == Names{a(10)});
}

TEST_CASE("without LATEST the newest generation that nothing left behind is taken") {
  MemoryStorage storage;
  for (const std::int64_t step : {10, 20, 30}) save_a(storage, step);
  save_b(storage, 25);
  storage.bytes(kRoot / "LATEST") = "what\n";
  const auto found = engine::find_generation(storage, kRoot);
  REQUIRE(found.has_value());
  CHECK(found->folder == kRoot / b(25));
  CHECK(!found->warning.empty());
}

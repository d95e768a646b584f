// A crash at any operation of saves and prunes, with whatever a file system may make of operations
// that no sync covers, leaves a complete generation that can be loaded.
#include <doctest/doctest.h>

#include <random>

#include "base/error.h"
#include "engine/checkpoint/keep.h"
#include "tests/engine/checkpoint/memory_storage.h"
#include "tests/engine/checkpoint/toy.h"

using namespace nqd;
using testing::MemoryStorage;
using Fate = MemoryStorage::Fate;

namespace {

const std::filesystem::path kRoot = "/run/checkpoints";

// The log of three saves, each followed by a prune, and behind how many operations each save had
// returned.
struct History {
  MemoryStorage storage;
  std::vector<std::size_t> saved;
};

History record() {
  History history;
  for (const std::int64_t step : {1, 2, 3}) {
    testing::save_toy(history.storage, kRoot, step, {2, 1});
    history.saved.push_back(history.storage.operations());
    engine::prune(history.storage, kRoot, {1, 0});
  }
  return history;
}

// The step that the disk resumes from, 0: none. Fails the test on anything that is not whole.
std::int64_t resumed(const MemoryStorage& disk) {
  const auto folder = engine::find_generation(disk, kRoot);
  if (!folder) return 0;
  CHECK((folder->warning.empty() || !disk.exists(kRoot / engine::kLatest)));
  const engine::CheckpointReader reader(disk, folder->folder);
  REQUIRE(reader.verify().empty());
  REQUIRE(testing::holds(reader, reader.manifest().state.step));
  return reader.manifest().state.step;
}

std::int64_t steps_saved(const History& history, std::size_t count) {
  std::int64_t steps = 0;
  for (const std::size_t at : history.saved) steps += count >= at ? 1 : 0;
  return steps;
}

}  // namespace

TEST_CASE("every prefix of the operations, with the worst and random fates of unsynced ones") {
  const History history = record();
  std::mt19937 random(11);
  std::int64_t states = 0;
  for (std::size_t count = 0; count <= history.storage.operations(); ++count) {
    const std::int64_t least = steps_saved(history, count);
    const auto check = [&](const std::function<Fate(std::size_t)>& fate) {
      const std::int64_t step = resumed(history.storage.crashed(count, fate));
      ++states;
      // At most the save that was under way is more than what had returned.
      REQUIRE_MESSAGE((step == least || step == least + 1), "crash behind operation " << count);
    };
    check([](std::size_t) { return Fate::kDone; });
    check([](std::size_t) { return Fate::kLost; });
    check([](std::size_t) { return Fate::kTorn; });
    for (int i = 0; i < 40; ++i) {
      check([&](std::size_t) { return static_cast<Fate>(random() % 3); });
    }
  }
  MESSAGE(states << " states of the disk after " << history.storage.operations() << " operations");
  CHECK(states >= 2000);
}

TEST_CASE("a disk that fails at any operation: the error is told, older generations stay") {
  const std::size_t first = [] {
    MemoryStorage storage;
    testing::save_toy(storage, kRoot, 1, {1, 2});
    return storage.operations();
  }();
  for (std::size_t at = first;; ++at) {
    MemoryStorage storage;
    testing::save_toy(storage, kRoot, 1, {1, 2});
    storage.fail_at(static_cast<std::int64_t>(at));
    bool failed = false;
    try {
      testing::save_toy(storage, kRoot, 2, {1, 2});
      engine::prune(storage, kRoot, {1, 0});
    } catch (const Error& error) {
      CHECK(error.code() == "NQD4003");
      failed = true;
    }
    storage.fail_at(-1);
    CHECK(resumed(storage) >= 1);
    if (!failed) break;
  }
}

TEST_CASE("the replay sees a folder whose name no sync covers") {
  MemoryStorage storage;
  storage.forget_new_folders();
  testing::save_toy(storage, kRoot, 1, {});
  CHECK(resumed(storage.crashed(storage.operations(), [](std::size_t) { return Fate::kDone; })) ==
        1);
  CHECK(resumed(storage.crashed(storage.operations(), [](std::size_t) { return Fate::kLost; })) ==
        0);
}

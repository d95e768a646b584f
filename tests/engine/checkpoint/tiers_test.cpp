// Copies of generations in a second folder: none counts before it is whole, whatever crashes.
#include "engine/checkpoint/tiers.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "base/error.h"
#include "collectives/world.h"
#include "engine/checkpoint/keep.h"
#include "engine/train/durable_copies.h"
#include "tests/engine/checkpoint/memory_storage.h"
#include "tests/engine/checkpoint/toy.h"

using namespace nqd;
using testing::MemoryStorage;
using Fate = MemoryStorage::Fate;

namespace {

const std::filesystem::path kFast = "/run/checkpoints";
const std::filesystem::path kDurable = "/far/copies";

planner::CheckpointSpec spec_of(std::int64_t keep_every = 0) {
  planner::CheckpointSpec spec;
  spec.durable_path = kDurable.string();
  spec.keep_last = 1;
  spec.keep_every = keep_every;
  return spec;
}

// One rank's copies in a world of its own; nothing else touches the storage meanwhile.
void with_copies(MemoryStorage& storage, const planner::CheckpointSpec& spec,
                 const std::function<void(engine::DurableCopies&)>& f) {
  collectives::run_threads(1, {}, [&](collectives::Communicator& world) {
    engine::DurableCopies copies(world, spec, storage, kFast);
    f(copies);
  });
}

void copy(MemoryStorage& storage, const engine::Manifest& manifest) {
  with_copies(storage, spec_of(), [&](engine::DurableCopies& copies) {
    copies.add_found(manifest);
    copies.finish();
  });
}

std::string code_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    CHECK(error.exit_code() == ExitCode::kFault);
    return error.code();
  }
  return "nothing";
}

// The step that a folder resumes from, 0: none. Fails the test on anything that is not whole.
std::int64_t resumed(const MemoryStorage& disk, const std::filesystem::path& root) {
  const auto folder = engine::find_generation(disk, root);
  if (!folder) return 0;
  CHECK((folder->warning.empty() || !disk.exists(root / engine::kLatest)));
  const engine::CheckpointReader reader(disk, folder->folder);
  REQUIRE(reader.verify().empty());
  REQUIRE(testing::holds(reader, reader.manifest().state.step));
  return reader.manifest().state.step;
}

// Three saves, each pruned and then copied, and behind how many operations each was through.
struct History {
  MemoryStorage storage;
  std::vector<std::size_t> saved;
  std::vector<std::size_t> copied;
};

History record() {
  History history;
  MemoryStorage& storage = history.storage;
  for (const std::int64_t step : {1, 2, 3}) {
    const engine::Manifest manifest = testing::save_toy(storage, kFast, step, {2, 1});
    history.saved.push_back(storage.operations());
    engine::prune(storage, kFast, {1, 0, 0});
    copy(storage, manifest);
    history.copied.push_back(storage.operations());
  }
  return history;
}

std::int64_t through(const std::vector<std::size_t>& ends, std::size_t count) {
  return std::count_if(ends.begin(), ends.end(), [&](std::size_t end) { return end <= count; });
}

std::int64_t step_in(const MemoryStorage& disk, const engine::FoundGeneration& found) {
  return engine::CheckpointReader(disk, found.folder).manifest().state.step;
}

}  // namespace

TEST_CASE("every prefix of the operations of saves and copies, with fates of unsynced ones") {
  const History history = record();
  std::mt19937 random(5);
  std::int64_t states = 0;
  for (std::size_t count = 0; count <= history.storage.operations(); ++count) {
    const std::int64_t saved = through(history.saved, count);
    const std::int64_t copied = through(history.copied, count);
    const auto check = [&](const std::function<Fate(std::size_t)>& fate) {
      const MemoryStorage disk = history.storage.crashed(count, fate);
      const std::int64_t fast = resumed(disk, kFast);
      const std::int64_t durable = resumed(disk, kDurable);
      ++states;
      // At most what was under way is more than what had returned.
      REQUIRE_MESSAGE((fast == saved || fast == saved + 1), "crash behind operation " << count);
      REQUIRE_MESSAGE((durable == copied || durable == copied + 1),
                      "crash behind operation " << count);
      const auto found = engine::find_in_tiers(disk, kFast, kDurable);
      REQUIRE((found.empty() ? 0 : step_in(disk, found.front())) == std::max(fast, durable));
    };
    check([](std::size_t) { return Fate::kDone; });
    check([](std::size_t) { return Fate::kLost; });
    check([](std::size_t) { return Fate::kTorn; });
    for (int i = 0; i < 10; ++i) {
      check([&](std::size_t) { return static_cast<Fate>(random() % 3); });
    }
  }
  MESSAGE(states << " states of both folders after " << history.storage.operations()
                 << " operations");
  CHECK(states >= 2000);
}

TEST_CASE("the next run completes a copy that a crash cut short") {
  const History history = record();
  for (std::size_t count = history.saved[1]; count < history.copied[1]; ++count) {
    for (const Fate fate : {Fate::kDone, Fate::kTorn}) {
      MemoryStorage disk = history.storage.crashed(count, [&](std::size_t) { return fate; });
      const auto found = engine::find_generation(disk, kFast);
      REQUIRE(found.has_value());
      copy(disk, engine::CheckpointReader(disk, found->folder).manifest());
      REQUIRE(resumed(disk, kDurable) == 2);
    }
  }
}

TEST_CASE("a disk that fails at any operation of a copy: the copy before it stays") {
  MemoryStorage before;
  copy(before, testing::save_toy(before, kFast, 1, {1, 2}));
  const engine::Manifest manifest = testing::save_toy(before, kFast, 2, {1, 2});
  for (std::size_t at = before.operations();; ++at) {
    MemoryStorage storage = before;
    storage.fail_at(static_cast<std::int64_t>(at));
    const std::string code = code_of([&] { copy(storage, manifest); });
    storage.fail_at(-1);
    CHECK((code == "NQD4003" || code == "nothing"));
    CHECK(resumed(storage, kDurable) >= 1);
    CHECK(resumed(storage, kFast) == 2);
    if (code == "nothing") break;
  }
}

TEST_CASE("what is damaged is not copied") {
  MemoryStorage storage;
  copy(storage, testing::save_toy(storage, kFast, 1, {1, 2}));
  const engine::Manifest manifest = testing::save_toy(storage, kFast, 2, {1, 2});
  const std::filesystem::path file = kFast / manifest.generation / "rank-00001.safetensors";
  SUBCASE("a flipped bit") { storage.bytes(file)[700] ^= 1; }
  SUBCASE("a cut file") { storage.bytes(file).pop_back(); }
  SUBCASE("a file that is gone") { storage.remove(file); }
  CHECK(code_of([&] { copy(storage, manifest); }) == "NQD4022");
  CHECK(resumed(storage, kDurable) == 1);
}

TEST_CASE("while one copy is under way, the last of those that come is next, and what stays") {
  MemoryStorage storage;
  std::vector<engine::Manifest> all;
  for (const std::int64_t step : {1, 2, 3, 4, 5}) {
    all.push_back(testing::save_toy(storage, kFast, step, {}));
  }
  with_copies(storage, spec_of(2), [&](engine::DurableCopies& copies) {
    for (const engine::Manifest& manifest : all) {
      engine::Manifest head = manifest;
      head.files.clear();
      copies.add(head, manifest.files[0], std::chrono::steady_clock::now());
    }
    CHECK(copies.unfinished() == std::vector<std::string>{all[0].generation, all[1].generation,
                                                          all[3].generation, all[4].generation});
    copies.finish();
    CHECK(copies.unfinished().empty());
    CHECK(copies.seconds_of(all[4].generation).value() > 0);
    CHECK(!copies.seconds_of(all[2].generation));
  });
  std::vector<std::int64_t> steps;
  for (const auto& one : engine::list_generations(storage, kDurable)) steps.push_back(one.step);
  CHECK(steps == std::vector<std::int64_t>{2, 4, 5});
  CHECK(resumed(storage, kDurable) == 5);
  // The same bytes under the same name.
  for (const char* const name : {"manifest.json", "manifest.sha256", "rank-00000.safetensors"}) {
    const std::string in = all[4].generation + "/" + name;
    CHECK(engine::read_text(storage, kFast / in) == engine::read_text(storage, kDurable / in));
  }
}

TEST_CASE("the copy that fails last is told at the end") {
  MemoryStorage storage;
  const engine::Manifest manifest = testing::save_toy(storage, kFast, 1, {});
  storage.bytes(kFast / manifest.generation / "rank-00000.safetensors")[700] ^= 1;
  CHECK(code_of([&] {
          with_copies(storage, spec_of(), [&](engine::DurableCopies& copies) {
            copies.add_found(manifest);
            engine::SaveStatus status;
            while (!status.copied) copies.report(status);
            CHECK(status.copy_failed);
            copies.note({0, 0, 0, 1, 1});
            copies.finish();
          });
        }) == "NQD4022");
}

TEST_CASE(
    "a copy that fails leaves nothing that takes room, nor does a removal that fails fail it") {
  MemoryStorage storage;
  for (const std::int64_t step : {1, 2}) testing::save_toy(storage, kFast, step, {1, 2});
  const auto all = engine::list_generations(storage, kFast);
  const auto manifest_of = [&](const engine::GenerationInfo& one) {
    return engine::CheckpointReader(storage, kFast / one.name).manifest();
  };
  copy(storage, manifest_of(all[0]));
  storage.bytes(kFast / all[1].name / "rank-00001.safetensors")[700] ^= 1;
  CHECK(code_of([&] { copy(storage, manifest_of(all[1])); }) == "NQD4022");
  CHECK(storage.list(kDurable) == std::vector<std::string>{"LATEST", all[0].name});
  storage.bytes(kFast / all[1].name / "rank-00001.safetensors")[700] ^= 1;
  // The operations behind the publication remove the copy before it.
  MemoryStorage counted = storage;
  copy(counted, manifest_of(all[1]));
  CHECK(counted.list(kDurable) == std::vector<std::string>{"LATEST", all[1].name});
  std::int64_t failed_removals = 0;
  for (std::size_t at = counted.operations() - 1;; --at) {
    MemoryStorage failing = storage;
    failing.fail_at(static_cast<std::int64_t>(at));
    const std::string code = code_of([&] { copy(failing, manifest_of(all[1])); });
    if (code != "nothing") break;
    CHECK(resumed(failing, kDurable) == 2);
    ++failed_removals;
  }
  CHECK(failed_removals >= 5);
}

TEST_CASE("behind the newest of two folders come older ones of both, but none that it left") {
  MemoryStorage storage;
  for (const std::int64_t step : {10, 20, 50}) {
    testing::save_toy(storage, kDurable, step, {}, "aaaaaaaa");
  }
  const std::string a20 = engine::generation_name(20, "aaaaaaaa");
  testing::save_toy(storage, kFast, 20, {}, "aaaaaaaa");
  testing::save_toy(storage, kFast, 25, {}, "bbbbbbbb", {a20});
  std::vector<std::string> found;
  for (const auto& one : engine::find_in_tiers(storage, kFast, kDurable)) {
    found.push_back(one.folder.string());
  }
  CHECK(found ==
        std::vector<std::string>{(kFast / engine::generation_name(25, "bbbbbbbb")).string(),
                                 (kFast / a20).string(), (kDurable / a20).string(),
                                 (kDurable / engine::generation_name(10, "aaaaaaaa")).string()});
}

TEST_CASE("the newer of two folders comes first, and what was left behind is not newer") {
  MemoryStorage storage;
  const std::string a20 = engine::generation_name(20, "aaaaaaaa");
  const auto order = [&] {
    std::vector<std::string> roots;
    for (const auto& one : engine::find_in_tiers(storage, kFast, kDurable)) {
      const std::string root = one.folder.parent_path().string();
      if (std::find(roots.begin(), roots.end(), root) == roots.end()) roots.push_back(root);
    }
    return roots;
  };
  const std::vector<std::string> fast_first = {kFast.string(), kDurable.string()};
  const std::vector<std::string> durable_first = {kDurable.string(), kFast.string()};
  CHECK(order().empty());
  testing::save_toy(storage, kDurable, 20, {}, "aaaaaaaa");
  CHECK(order() == std::vector<std::string>{kDurable.string()});
  CHECK(engine::find_in_tiers(storage, kFast, kDurable)[0].warning.find("has no generation") !=
        std::string::npos);
  testing::save_toy(storage, kFast, 20, {}, "aaaaaaaa");
  CHECK(order() == fast_first);
  CHECK(engine::find_in_tiers(storage, kFast, kDurable)[0].warning.empty());
  SUBCASE("a node that an old run left its generations on") {
    testing::save_toy(storage, kDurable, 30, {}, "bbbbbbbb", {a20});
    CHECK(order() == durable_first);
    CHECK(engine::find_in_tiers(storage, kFast, kDurable)[0].warning.find("has only") !=
          std::string::npos);
  }
  SUBCASE("a run that goes on from before the last copy") {
    testing::save_toy(storage, kDurable, 50, {}, "aaaaaaaa");
    CHECK(order() == durable_first);
    testing::save_toy(storage, kFast, 25, {}, "bbbbbbbb", {a20});
    CHECK(order() == fast_first);
  }
  SUBCASE("a fast folder that is damaged") {
    storage.remove(kFast / a20 / "manifest.json");
    CHECK(order() == std::vector<std::string>{kDurable.string()});
    storage.remove(kDurable / a20 / "manifest.json");
    CHECK_THROWS_AS(order(), Error);
  }
}

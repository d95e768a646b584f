// Generations: what is written on one cut of the ranks is read on any other, or refused by name.
#include <doctest/doctest.h>

#include <random>

#include "base/error.h"
#include "engine/checkpoint/keep.h"
#include "engine/io/checkpoint_json.h"
#include "tests/engine/checkpoint/memory_storage.h"
#include "tests/engine/checkpoint/toy.h"
#include "tests/temporary_folder.h"

using namespace nqd;
using engine::Extent;
using testing::Cut;
using testing::MemoryStorage;

namespace {

const std::filesystem::path kRoot = "/run/checkpoints";

std::string code_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.code();
  }
  return "nothing";
}

}  // namespace

TEST_CASE("runs become extents") {
  std::vector<Extent> extents;
  for (std::int64_t row = 0; row < 4; ++row) engine::append_run(extents, 2 + row * 10, 3);
  CHECK(extents == std::vector<Extent>{{2, 3, 10, 4}});
  engine::append_run(extents, 42, 1);
  engine::append_run(extents, 43, 5);
  CHECK(extents == std::vector<Extent>{{2, 3, 10, 4}, {42, 6, 6, 1}});
  engine::append_run(extents, 60, 0);
  CHECK(engine::elements_of(extents) == 18);
  // Backwards is a new run, not a rhythm.
  engine::append_run(extents, 0, 6);
  CHECK(extents.size() == 3);
}

TEST_CASE("a generation reads back on any cut, any range") {
  std::mt19937 random(7);
  for (const Cut cut : {Cut{1, 1}, Cut{1, 3}, Cut{2, 1}, Cut{4, 2}, Cut{3, 5}}) {
    MemoryStorage storage;
    const engine::Manifest written = testing::save_toy(storage, kRoot, 3, cut);
    const engine::CheckpointReader reader(storage, engine::find_generation(storage, kRoot)->folder);
    CHECK(reader.manifest() == written);
    CHECK(testing::holds(reader, 3));
    CHECK(reader.verify().empty());
    for (int i = 0; i < 200; ++i) {
      const auto tensors = testing::toy_tensors();
      const auto& tensor = tensors[random() % tensors.size()];
      const std::int64_t begin = random() % tensor.elements();
      const std::int64_t count = 1 + random() % (tensor.elements() - begin);
      std::vector<float> out(static_cast<std::size_t>(count));
      reader.read(engine::Quantity::kMoment1, tensor.name, begin, out);
      for (std::int64_t k = 0; k < count; ++k) {
        REQUIRE(out[static_cast<std::size_t>(k)] ==
                testing::toy_value(3, engine::Quantity::kMoment1, tensor.name, begin + k));
      }
    }
  }
}

TEST_CASE("files longer than a block, on a disk") {
  const testing::TemporaryFolder folder;
  const std::filesystem::path root = folder.path() / "checkpoints";
  engine::Manifest manifest;
  manifest.generation = engine::generation_name(1, "0a");
  manifest.written_at = "2026-11-30T07:00:00Z";
  manifest.state.step = 1;
  manifest.tensors = {{"long", {700001}}};
  manifest.quantities = {engine::Quantity::kWeights};
  std::vector<float> values(700001);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  std::vector<engine::ShardPart> parts(1);
  parts[0].tensor = "long";
  engine::append_run(parts[0].extents, 0, 700001);
  const std::span<const float> all(values);
  parts[0].values = {all.first(123), all.subspan(123)};
  engine::Storage& disk = engine::disk();
  disk.make_folder(root / manifest.generation);
  manifest.files = {
      engine::write_shard(disk, root / manifest.generation, engine::shard_name(0), parts, {})};
  CHECK(manifest.files[0].blocks.size() == 3);
  engine::publish(disk, root, manifest);
  const engine::CheckpointReader reader(disk, engine::find_generation(disk, root)->folder);
  std::vector<float> out(300000);
  reader.read(engine::Quantity::kWeights, "long", 250000, out);
  for (std::size_t i = 0; i < out.size(); ++i) REQUIRE(out[i] == static_cast<float>(i + 250000));
}

TEST_CASE("a slow write hears at once that somebody waits, or that it is given up") {
  MemoryStorage storage;
  storage.make_folder(kRoot);
  const std::vector<float> values(1000);
  std::vector<engine::ShardPart> parts(1);
  parts[0].tensor = "long";
  engine::append_run(parts[0].extents, 0, 1000);
  parts[0].values = {values};
  engine::ShardOptions options;
  options.bytes_per_s = 1;  // more than an hour
  int asked = 0;
  const auto later = [&] { return ++asked > 3; };
  SUBCASE("waits") {
    options.is_urgent = later;
    CHECK(engine::write_shard(storage, kRoot, "file", parts, options).blocks.size() == 1);
  }
  SUBCASE("given up") {
    options.is_cancelled = later;
    CHECK(code_of([&] { engine::write_shard(storage, kRoot, "file", parts, options); }) ==
          "NQD4021");
  }
}

TEST_CASE("a generation of every format version is still read") {
  // Written by this test's save_toy, once a version: step 7, four ranks.
  for (const std::string version : {"v1", "v2"}) {
    const std::filesystem::path root =
        std::filesystem::path(NQD_SOURCE_DIR) / "tests/fixtures/checkpoints" / version;
    const engine::CheckpointReader reader(engine::disk(),
                                          engine::find_generation(engine::disk(), root)->folder);
    CHECK(reader.verify().empty());
    CHECK(testing::holds(reader, 7));
    CHECK(reader.manifest().mesh == "ddp dp 2 tp 2 pp 1");
    const bool skipped = version == "v2";
    CHECK(reader.manifest().state.data_offset == (skipped ? 3 : 0));
    CHECK(reader.manifest().state.roll_backs == (skipped ? 1 : 0));
    CHECK(reader.manifest().state.good_losses.size() == (skipped ? 2 : 0));
  }
}

TEST_CASE("every flipped bit of a generation is found, and named") {
  MemoryStorage storage;
  const engine::Manifest manifest = testing::save_toy(storage, kRoot, 5, {2, 2});
  std::int64_t flips = 0;
  for (const std::string& file : storage.files()) {
    std::string& bytes = storage.bytes(file);
    for (std::size_t bit = 0; bit < bytes.size() * 8; bit += file.ends_with("json") ? 7 : 1) {
      const char mask = static_cast<char>(1 << (bit % 8));
      bytes[bit / 8] ^= mask;
      ++flips;
      std::string found;
      try {
        const auto generation = engine::find_generation(storage, kRoot).value();
        found = generation.warning;
        const engine::CheckpointReader reader(storage, kRoot / manifest.generation);
        for (const engine::CheckpointDamage& damage : reader.verify()) found += damage.file;
      } catch (const Error& error) {
        found = error.what();
      }
      const std::string name = std::filesystem::path(file).filename().string();
      const bool named = found.find(name) != std::string::npos ||
                         (name == "manifest.sha256" && found.find("manifest") != std::string::npos);
      REQUIRE_MESSAGE(named, file << " bit " << bit << ": " << found);
      bytes[bit / 8] ^= mask;
    }
  }
  CHECK(flips >= 10000);
  CHECK(testing::holds(engine::CheckpointReader(storage, kRoot / manifest.generation), 5));
}

TEST_CASE("damage says file, bytes and tensors") {
  MemoryStorage storage;
  const engine::Manifest manifest = testing::save_toy(storage, kRoot, 5, {1, 2});
  const engine::CheckpointFile& file = manifest.files[1];
  storage.bytes(kRoot / manifest.generation / file.name)[file.parts[3].offset + 1] ^= 4;
  const engine::CheckpointReader reader(storage, kRoot / manifest.generation);
  const auto damage = reader.verify();
  REQUIRE(damage.size() == 1);
  CHECK(damage[0].file == "rank-00001.safetensors");
  CHECK(damage[0].begin == 0);
  CHECK(damage[0].end == file.bytes);
  CHECK(damage[0].tensors.size() == file.parts.size());
  std::vector<float> out(1);
  CHECK(code_of([&] {
          reader.read(file.parts[0].quantity, file.parts[0].tensor, file.parts[0].extents[0].begin,
                      out);
        }) == "NQD2082");
}

TEST_CASE("refusals") {
  MemoryStorage storage;
  CHECK(!engine::find_generation(storage, kRoot));
  const engine::Manifest manifest = testing::save_toy(storage, kRoot, 5, {1, 2});
  const std::filesystem::path folder = kRoot / manifest.generation;
  SUBCASE("a file is missing") {
    storage.remove(folder / "rank-00001.safetensors");
    const engine::CheckpointReader reader(storage, folder);
    CHECK(reader.verify().size() == 1);
    std::vector<float> out(84);
    CHECK(code_of([&] { reader.read(engine::Quantity::kWeights, "table", 0, out); }) == "NQD2083");
  }
  SUBCASE("a file is cut") {
    storage.bytes(folder / "rank-00000.safetensors").pop_back();
    CHECK(engine::CheckpointReader(storage, folder).verify().size() == 1);
  }
  SUBCASE("LATEST names another manifest") {
    engine::replace_text(storage, kRoot / "LATEST",
                         manifest.generation + " " + std::string(64, 'a') + "\n");
    const auto found = engine::find_generation(storage, kRoot);
    CHECK(found->folder == folder);
    CHECK(found->warning.find("LATEST does not name the manifest") != std::string::npos);
    storage.remove(folder / "manifest.json");
    CHECK(code_of([&] { engine::find_generation(storage, kRoot); }) == "NQD2080");
  }
  SUBCASE("a newer format") {
    std::string text = engine::manifest_json(manifest);
    text.replace(text.find("\"version\": 1"), 12, "\"version\": 3");
    CHECK(code_of([&] { engine::parse_manifest(text, "m"); }) == "NQD2081");
  }
  SUBCASE("skipped batches make version 2") {
    engine::Manifest skipped = manifest;
    skipped.state.good_losses = {2.5, 1.0 / 3};
    CHECK(engine::manifest_json(skipped).find("\"version\": 1") != std::string::npos);
    CHECK(engine::parse_manifest(engine::manifest_json(skipped), "m") == skipped);
    skipped.state.data_offset = 7;
    skipped.state.roll_backs = 2;
    std::string text = engine::manifest_json(skipped);
    CHECK(text.find("\"version\": 2") != std::string::npos);
    CHECK(engine::parse_manifest(text, "m") == skipped);
    text.replace(text.find("\"data_offset\": 7"), 16, "\"data_offset\":-7");
    CHECK(code_of([&] { engine::parse_manifest(text, "m"); }) == "NQD2080");
  }
  SUBCASE("elements missing, twice, outside") {
    const auto refused = [&](const std::function<void(engine::Manifest&)>& change) {
      engine::Manifest changed = manifest;
      change(changed);
      return code_of([&] { engine::parse_manifest(engine::manifest_json(changed), "m"); });
    };
    CHECK(refused([](engine::Manifest&) {}) == "nothing");
    CHECK(refused([](engine::Manifest& m) { m.written_at = "yesterday"; }) == "NQD2080");
    CHECK(refused([](engine::Manifest& m) { m.written_at += " or so"; }) == "NQD2080");
    CHECK(refused([](engine::Manifest& m) { m.files.pop_back(); }) == "NQD2080");
    CHECK(refused([](engine::Manifest& m) { m.files[1].name = m.files[0].name; }) == "NQD2080");
    CHECK(refused([](engine::Manifest& m) { m.files[0].name = "../x"; }) == "NQD2080");
    CHECK(refused([](engine::Manifest& m) { m.files[0].parts[0].extents[0].begin = -1; }) ==
          "NQD2080");
    CHECK(refused([](engine::Manifest& m) { m.files[0].parts[0].extents[0].repeats = 1 << 30; }) ==
          "NQD2080");
    CHECK(refused([](engine::Manifest& m) { m.files[0].parts[0].offset = m.files[0].bytes; }) ==
          "NQD2080");
    CHECK(refused([](engine::Manifest& m) { m.files[0].blocks.clear(); }) == "NQD2080");
    CHECK(refused([](engine::Manifest& m) { m.tensors[1].shape[0] = 14; }) == "NQD2080");
    CHECK(refused([](engine::Manifest& m) {
            m.tensors[0].shape = {1LL << 40, 1LL << 40};
          }) == "NQD2080");
  }
}

TEST_CASE("a version, a step or a name that cannot be") {
  MemoryStorage storage;
  const engine::Manifest manifest = testing::save_toy(storage, kRoot, 5, {1, 2});
  const std::filesystem::path folder = kRoot / manifest.generation;
  std::string text = engine::manifest_json(manifest);
  text.replace(text.find("\"version\": 1"), 12, "\"version\": 0");
  CHECK(code_of([&] { engine::parse_manifest(text, "m"); }) == "NQD2080");
  const auto published = [&](const std::function<void(engine::Manifest&)>& change) {
    engine::Manifest changed = manifest;
    change(changed);
    return code_of([&] { engine::manifest_of(engine::manifest_json(changed), folder); });
  };
  CHECK(published([](engine::Manifest&) {}) == "nothing");
  CHECK(published([](engine::Manifest& m) { m.state.step = -1; }) == "NQD2080");
  CHECK(published([](engine::Manifest& m) { m.state.step = 6; }) == "NQD2080");
  CHECK(published([](engine::Manifest& m) { m.state.loss_scale = 0; }) == "NQD2080");
  CHECK(published([](engine::Manifest& m) { m.generation = "../away"; }) == "NQD2080");
  CHECK(published([](engine::Manifest& m) { m.generation = engine::generation_name(5, "beef"); }) ==
        "NQD2080");
  // A copy under a name of one's own is what it is.
  CHECK(engine::manifest_of(engine::manifest_json(manifest), "/backup/best") == manifest);
}

TEST_CASE("what a policy keeps") {
  MemoryStorage storage;
  for (const std::int64_t step : {10, 20, 30, 40, 50}) testing::save_toy(storage, kRoot, step, {});
  storage.make_folder(kRoot / engine::generation_name(45, "dead"));
  storage.make_folder(kRoot / engine::generation_name(60, "beef"));
  storage.make_folder(kRoot / "notes");
  // Step 60 may be under way.
  const auto removed = engine::prune(storage, kRoot, {2, 20});
  CHECK(removed == std::vector<std::string>{engine::generation_name(45, "dead"),
                                            engine::generation_name(30, "00c0ffee"),
                                            engine::generation_name(10, "00c0ffee")});
  std::vector<std::int64_t> steps;
  for (const auto& one : engine::list_generations(storage, kRoot)) steps.push_back(one.step);
  CHECK(steps == std::vector<std::int64_t>{20, 40, 50, 60});
  CHECK(storage.exists(kRoot / "notes"));
  CHECK(testing::holds(
      engine::CheckpointReader(storage, engine::find_generation(storage, kRoot)->folder), 50));
}

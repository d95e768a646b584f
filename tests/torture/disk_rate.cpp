#include "tests/torture/disk_rate.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "engine/checkpoint/generations.h"
#include "engine/checkpoint/reader.h"
#include "engine/checkpoint/shard.h"

namespace nqd::testing {
namespace {

using Clock = std::chrono::steady_clock;

// The values of a file are of one tensor, rows of which the ranks share out.
constexpr const char* kTensor = "table";

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

// The disk, and when the last sync of it returned.
class TimedStorage final : public engine::Storage {
 public:
  std::unique_ptr<engine::StorageFile> create(const std::filesystem::path& path) override {
    return engine::disk().create(path);
  }
  std::unique_ptr<engine::StorageInput> open(const std::filesystem::path& path) const override {
    return engine::disk().open(path);
  }
  void make_folder(const std::filesystem::path& path) override { engine::disk().make_folder(path); }
  void rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    engine::disk().rename(from, to);
  }
  void sync_folder(const std::filesystem::path& path) override {
    engine::disk().sync_folder(path);
    synced = Clock::now();
  }
  void remove(const std::filesystem::path& path) override { engine::disk().remove(path); }
  bool exists(const std::filesystem::path& path) const override {
    return engine::disk().exists(path);
  }
  bool is_link(const std::filesystem::path& path) const override {
    return engine::disk().is_link(path);
  }
  std::vector<std::string> list(const std::filesystem::path& path) const override {
    return engine::disk().list(path);
  }

  Clock::time_point synced;
};

double cpu_s() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

void on_threads(int count, const std::function<void(int)>& work) {
  std::vector<std::future<void>> running;
  for (int i = 0; i < count; ++i) running.push_back(std::async(std::launch::async, work, i));
  for (std::future<void>& one : running) one.get();
}

std::vector<float> random_values(std::size_t count) {
  std::mt19937_64 random(7);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random());
  return values;
}

}  // namespace

DiskRate measure_save(const std::string& folder, std::uint64_t bytes, int files) {
  const auto each = static_cast<std::int64_t>(bytes / sizeof(float)) / files;
  const std::vector<float> values = random_values(static_cast<std::size_t>(each));
  engine::Manifest manifest;
  manifest.generation = engine::generation_name(1, "00c0ffee");
  manifest.written_at = "2026-11-30T07:00:00Z";  // of no account here
  manifest.state.step = 1;
  manifest.quantities = {engine::Quantity::kWeights};
  manifest.tensors = {{kTensor, {files, each}}};
  manifest.files.resize(static_cast<std::size_t>(files));
  const std::filesystem::path generation = std::filesystem::path(folder) / manifest.generation;
  std::vector<TimedStorage> storages(static_cast<std::size_t>(files));
  storages[0].make_folder(generation);

  DiskRate rate;
  const double cpu_start_s = cpu_s();
  const Clock::time_point start = Clock::now();
  on_threads(files, [&](int rank) {
    const auto at = static_cast<std::size_t>(rank);
    engine::ShardPart part{kTensor, engine::Quantity::kWeights, {}, {values}};
    engine::append_run(part.extents, rank * each, each);
    manifest.files[at] = engine::write_shard(storages[at], generation, engine::shard_name(rank),
                                             std::span(&part, 1), {});
  });
  const Clock::time_point done = Clock::now();
  Clock::time_point synced = start;
  for (const TimedStorage& storage : storages) synced = std::max(synced, storage.synced);
  rate.save_s = seconds_between(start, synced);
  rate.read_back_s = seconds_between(synced, done);
  rate.cpu_s = cpu_s() - cpu_start_s;
  for (const engine::CheckpointFile& file : manifest.files) rate.bytes += file.bytes;
  engine::publish(storages[0], folder, manifest);
  return rate;
}

double measure_load(const std::string& folder) {
  const std::filesystem::path generation = engine::find_generation(engine::disk(), folder)->folder;
  const engine::Manifest manifest = engine::CheckpointReader(engine::disk(), generation).manifest();
  const auto files = static_cast<int>(manifest.files.size());
  const std::int64_t each = manifest.tensors.front().elements() / files;
  for (const engine::CheckpointFile& file : manifest.files) {
    engine::disk().open(generation / file.name)->drop_cache();
  }
  std::vector<std::vector<float>> loaded(static_cast<std::size_t>(files));
  for (std::vector<float>& into : loaded) into.resize(static_cast<std::size_t>(each));
  const Clock::time_point start = Clock::now();
  on_threads(files, [&](int rank) {
    const engine::CheckpointReader reader(engine::disk(), generation);
    reader.read(engine::Quantity::kWeights, kTensor, rank * each,
                loaded[static_cast<std::size_t>(rank)]);
  });
  return seconds_between(start, Clock::now());
}

}  // namespace nqd::testing

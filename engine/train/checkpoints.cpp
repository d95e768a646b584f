#include "engine/train/checkpoints.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <ctime>
#include <random>
#include <utility>

#include "base/checksum.h"
#include "base/error.h"
#include "base/log.h"
#include "engine/checkpoint/shard.h"
#include "engine/checkpoint/state.h"
#include "engine/io/checkpoint_json.h"
#include "engine/parallel/agree.h"

namespace nqd::engine {
namespace {

using Clock = std::chrono::steady_clock;

// Collective. Rank 0's text, of at most 1,000 bytes.
std::string of_rank_0(collectives::Communicator& world, const std::string& text) {
  std::array<char, 1024> bytes{};
  if (world.rank() == 0)
    std::memcpy(bytes.data(), text.data(), std::min(text.size(), bytes.size() - 1));
  world.broadcast(std::as_writable_bytes(std::span(bytes)), 0);
  return bytes.data();
}

std::string utc_now() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

std::string random_run() {
  std::random_device device;
  return hex64((std::uint64_t{device()} << 32U) | device()).substr(0, 8);
}

// The record of one rank's file, until the manifest holds it.
std::string record_name(int rank) { return shard_name(rank) + ".json"; }

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The generation before it is whole, and the run can go on. A lost rank is no failure of a save.
bool is_survivable(const Error& error) {
  return error.exit_code() == ExitCode::kFault &&
         dynamic_cast<const collectives::PeerLostError*>(&error) == nullptr &&
         dynamic_cast<const collectives::TimeoutError*>(&error) == nullptr;
}

void warn(const Error& error) {
  if (!error.quiet()) log::warn(std::string("a checkpoint was not written: ") + error.what());
}

// The calling thread writes when nobody else wants the core.
void yield_to_training() {
  constexpr int kNice = 10;
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNice);
}

CheckpointRecord record_of(const Manifest& manifest) {
  CheckpointRecord record;
  record.step = manifest.state.step;
  record.generation = manifest.generation;
  for (const CheckpointTensor& tensor : manifest.tensors) record.bytes += tensor.elements();
  record.bytes *= static_cast<std::int64_t>(manifest.quantities.size() * sizeof(float));
  return record;
}

std::string mesh_text(const planner::ParallelSpec& mesh) {
  return std::string(planner::name(mesh.engine)) + " dp " + std::to_string(mesh.dp) + " tp " +
         std::to_string(mesh.tp) + " pp " + std::to_string(mesh.pp);
}

}  // namespace

Checkpoints::Checkpoints(collectives::Communicator& world, const planner::Config& config,
                         const CheckpointOptions& options, Storage& storage)
    : world_(world), config_(config), options_(options), storage_(storage) {}

Checkpoints::~Checkpoints() { cancelled_ = true; }

// The folder that all ranks read, though another run may publish meanwhile.
std::string Checkpoints::agreed_resume() {
  std::string found;
  attempt_together(world_, [&] {
    if (world_.rank() != 0) return;
    if (!options_.resume.empty()) {
      const auto generation = find_generation(storage_, options_.resume);
      if (generation && !generation->warning.empty()) log::warn(generation->warning);
      if (generation) found = generation->folder.string();
    }
    const bool among_others = found.empty() && config_.checkpoint.every > 0 &&
                              read_latest(storage_, options_.folder).has_value();
    if (!among_others) return;
    throw Error(ExitCode::kUsage, "NQD2085",
                options_.folder.string() +
                    " has the generations of a run, and this one would start "
                    "anew among them",
                "pass --resume auto to go on with it, or set another checkpoint.path");
  });
  return of_rank_0(world_, found);
}

std::unique_ptr<CheckpointReader> Checkpoints::open(const std::string& data_digest) {
  run_ = of_rank_0(world_, random_run());
  data_digest_ = of_rank_0(world_, data_digest);
  const std::string folder = agreed_resume();
  if (folder.empty()) return nullptr;
  std::unique_ptr<CheckpointReader> reader;
  attempt_together(world_, [&] {
    reader = std::make_unique<CheckpointReader>(storage_, folder);
    RunValues values = options_.values;
    values["data.digest"] = data_digest_;
    check_resumable(reader->manifest(), values, options_.allowed_changes);
  });
  if (world_.rank() == 0) {
    log::info("going on after step " + std::to_string(reader->manifest().state.step) + " from " +
              folder);
  }
  return reader;
}

bool Checkpoints::is_due(std::int64_t step) const {
  const std::int64_t every = config_.checkpoint.every;
  return every > 0 && (step % every == 0 || step == config_.train.steps);
}

Manifest Checkpoints::head(const UnitStore& store, const RunState& state) const {
  Manifest manifest;
  manifest.generation = generation_name(state.step, run_);
  manifest.written_at = utc_now();
  manifest.mesh = mesh_text(config_.parallel);
  manifest.data_digest = data_digest_;
  manifest.config = options_.values;
  manifest.state = state;
  manifest.quantities = quantities_of(store.shape());
  for (const planner::TensorSpec& tensor : planner::parameters(config_.model)) {
    manifest.tensors.push_back({tensor.name, tensor.shape});
  }
  return manifest;
}

void Checkpoints::write_own(std::span<const ShardPart> parts, const std::filesystem::path& folder) {
  ShardOptions options;
  options.bytes_per_s = config_.checkpoint.bytes_per_s;
  options.is_cancelled = [this] { return cancelled_.load(); };
  options.is_urgent = [this] { return urgent_.load(); };
  storage_.make_folder(folder);
  const CheckpointFile file =
      write_shard(storage_, folder, shard_name(world_.rank()), parts, options);
  replace_text(storage_, folder / record_name(world_.rank()), checkpoint_file_json(file));
}

void Checkpoints::publish_all(const Manifest& head) {
  Manifest manifest = head;
  const std::filesystem::path folder = options_.folder / manifest.generation;
  for (int rank = 0; rank < world_.size(); ++rank) {
    const std::filesystem::path path = folder / record_name(rank);
    manifest.files.push_back(parse_checkpoint_file(read_text(storage_, path), path.string()));
  }
  publish(storage_, options_.folder, manifest);
  for (int rank = 0; rank < world_.size(); ++rank) storage_.remove(folder / record_name(rank));
  prune(storage_, options_.folder, {config_.checkpoint.keep_last, config_.checkpoint.keep_every});
}

void Checkpoints::save(UnitStore& store, const RunState& state, bool must_last) {
  const Clock::time_point start = Clock::now();
  try {
    settle();
  } catch (const Error& error) {
    if (!is_survivable(error)) throw;
    warn(error);
  }
  const bool apart = !store.snapshot().empty();
  try {
    if (apart) {
      begin(store, state);
      if (must_last) settle();
    } else {
      write_now(store, state);
    }
  } catch (const Error& error) {
    if (must_last || !is_survivable(error)) throw;
    warn(error);
  }
  const double stall_s = seconds_since(start);
  if (under_way_) {
    under_way_->record.stall_s = stall_s;
  } else if (!records_.empty() && records_.back().step == state.step) {
    records_.back().stall_s = stall_s;
  }
}

void Checkpoints::begin(UnitStore& store, const RunState& state) {
  UnderWay save;
  save.start = Clock::now();
  save.manifest = head(store, state);
  save.record = record_of(save.manifest);
  const std::filesystem::path folder = options_.folder / save.manifest.generation;
  save.written =
      std::async(std::launch::async, [this, folder, parts = copied_parts(store, store.snapshot())] {
        yield_to_training();
        try {
          write_own(parts, folder);
        } catch (...) {
          failed_ = true;
          throw;
        }
      });
  under_way_ = std::move(save);
}

void Checkpoints::write_now(UnitStore& store, const RunState& state) {
  const Clock::time_point start = Clock::now();
  const Manifest manifest = head(store, state);
  attempt_together(world_,
                   [&] { write_own(saved_parts(store), options_.folder / manifest.generation); });
  attempt_together(world_, [&] {
    if (world_.rank() == 0) publish_all(manifest);
  });
  keep(record_of(manifest), start);
}

SaveStatus Checkpoints::status() const {
  if (!under_way_) return {};
  const bool ready =
      under_way_->written.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  return {ready, ready && failed_};
}

void Checkpoints::note(std::int64_t saved, std::int64_t failed) {
  if (!under_way_ || saved < world_.size()) return;
  UnderWay save = std::move(*under_way_);
  under_way_.reset();
  try {
    save.written.get();
  } catch (const Error& error) {
    warn(error);
  }
  failed_ = false;
  if (failed == 0 && world_.rank() == 0) publish_in_background(std::move(save));
}

void Checkpoints::publish_in_background(UnderWay save) {
  finish_publishing();
  publishing_ = std::async(std::launch::async, [this, manifest = save.manifest,
                                                record = save.record, start = save.start] {
    yield_to_training();
    publish_all(manifest);
    keep(record, start);
  });
}

void Checkpoints::finish_publishing() {
  if (!publishing_.valid()) return;
  try {
    publishing_.get();
  } catch (const Error& error) {
    warn(error);
  }
}

// Collective where a save is under way: it is complete on return.
void Checkpoints::settle() {
  finish_publishing();
  if (!under_way_) return;
  UnderWay save = std::move(*under_way_);
  under_way_.reset();
  urgent_ = true;
  save.written.wait();
  urgent_ = false;
  failed_ = false;
  attempt_together(world_, [&] { save.written.get(); });
  attempt_together(world_, [&] {
    if (world_.rank() == 0) publish_all(save.manifest);
  });
  keep(save.record, save.start);
}

void Checkpoints::keep(CheckpointRecord record, Clock::time_point start) {
  record.write_s = seconds_since(start);
  records_.push_back(std::move(record));
}

std::vector<CheckpointRecord> Checkpoints::take_records() {
  finish_publishing();
  return std::move(records_);
}

}  // namespace nqd::engine

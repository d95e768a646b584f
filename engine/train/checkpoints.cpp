#include "engine/train/checkpoints.h"

#include <chrono>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "engine/checkpoint/keep.h"
#include "engine/checkpoint/shard.h"
#include "engine/checkpoint/state.h"
#include "engine/parallel/agree.h"
#include "engine/train/across_ranks.h"
#include "engine/train/background.h"

namespace nqd::engine {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

constexpr const char* kNotWritten = "a checkpoint was not written";
CheckpointRecord record_of(const Manifest& manifest) {
  CheckpointRecord record;
  record.step = manifest.state.step;
  record.generation = manifest.generation;
  for (const CheckpointTensor& tensor : manifest.tensors) record.bytes += tensor.elements();
  record.bytes *= static_cast<std::int64_t>(manifest.quantities.size() * sizeof(float));
  return record;
}

}  // namespace

Checkpoints::Checkpoints(collectives::Communicator& world, const planner::Config& config,
                         const CheckpointOptions& options, Storage& storage)
    : world_(world),
      config_(config),
      options_(options),
      storage_(storage),
      source_(world, config.checkpoint, options, storage),
      last_save_(Clock::now()),
      copies_(world, config.checkpoint, storage, options.folder) {}

Checkpoints::~Checkpoints() { cancelled_ = true; }

std::unique_ptr<CheckpointReader> Checkpoints::open(const std::string& data_digest) {
  run_.id = of_rank_0(world_, new_run_id());
  run_.data_digest = of_rank_0(world_, data_digest);
  run_.values = options_.values;
  std::unique_ptr<CheckpointReader> reader = source_.open(run_);
  if (world_.rank() == 0) remove_cut_saves();
  if (!reader) return nullptr;
  const Manifest& manifest = reader->manifest();
  resumed_from_ = reader->folder();
  run_.lineage = manifest.lineage;
  run_.lineage.push_back(manifest.generation);
  if (world_.rank() == 0) {
    log::info("going on after step " + std::to_string(manifest.state.step) + " from " +
              resumed_from_.string());
  }
  const bool from_own = options_.resume == options_.folder;
  if (copies_.exist() && from_own && resumed_from_ == options_.folder / manifest.generation) {
    copies_.add_found(manifest);
  }
  return reader;
}

// Of runs that ended: their folders are this run's now.
void Checkpoints::remove_cut_saves() {
  for (const std::filesystem::path& folder :
       {options_.folder, std::filesystem::path(config_.checkpoint.durable_path)}) {
    if (folder.empty()) continue;
    try {
      for (const std::string& name : remove_cut(storage_, folder)) {
        log::info("removed " + (folder / name).string() + ", a save that was cut short");
      }
    } catch (const Error& error) {
      warn_of("saves that were cut short were not removed", error);
    }
  }
}

ResumeSource::GoneBack Checkpoints::go_back(
    std::int64_t step, const std::function<void(const CheckpointReader&)>& restore) {
  settle_or_warn();
  ResumeSource::GoneBack back = source_.go_back(run_, step, resumed_from_, restore);
  if (!back.reader || back.skipped.empty()) return back;
  // What it saves from here on must not be written over what was skipped.
  run_.id = of_rank_0(world_, new_run_id());
  run_.lineage.push_back(back.reader->manifest().generation);
  return back;
}

bool Checkpoints::is_due(std::int64_t step) const {
  const std::int64_t every = config_.checkpoint.every;
  if (time_is_up_ || (every > 0 && step % every == 0)) return true;
  return saves_on_its_way(config_.checkpoint) && step == config_.train.steps;
}

CheckpointFile Checkpoints::write_own(std::span<const ShardPart> parts,
                                      const std::filesystem::path& folder) {
  ShardOptions options;
  options.bytes_per_s = config_.checkpoint.bytes_per_s;
  options.is_cancelled = [this] { return cancelled_.load(); };
  options.is_urgent = [this] { return urgent_.load(); };
  CheckpointFile file;
  as_fault([&] {
    storage_.make_folder(folder);
    file = write_shard(storage_, folder, shard_name(world_.rank()), parts, options);
    write_record(storage_, folder, file);
  });
  return file;
}

void Checkpoints::publish_all(const Manifest& head, const std::vector<std::string>& in_use) {
  std::vector<std::string> files;
  for (int rank = 0; rank < world_.size(); ++rank) files.push_back(shard_name(rank));
  as_fault([&] { publish_recorded(storage_, options_.folder, head, files); });
  prune_own(in_use);
}

void Checkpoints::prune_own(const std::vector<std::string>& in_use) {
  const planner::CheckpointSpec& spec = config_.checkpoint;
  KeepPolicy policy{spec.keep_last, spec.keep_every, spec.keep_interval_s};
  // What is kept for good are copies.
  if (copies_.exist()) policy = {spec.keep_last, 0, 0};
  prune_or_warn(storage_, options_.folder, policy, in_use);
}

// Collective. Then nothing keeps generations that waited for their copies.
void Checkpoints::finish_copies() {
  if (!copies_.exist()) return;
  copies_.finish();
  if (world_.rank() == 0) prune_own({});
}

void Checkpoints::save(UnitStore& store, const RunState& state, bool must_last) {
  const Clock::time_point start = Clock::now();
  last_save_ = start;
  time_is_up_ = false;
  settle_or_warn();
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
    warn_of(kNotWritten, error);
  }
  if (must_last) finish_copies();
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
  save.manifest = manifest_head(run_, config_, state);
  save.record = record_of(save.manifest);
  const std::filesystem::path folder = options_.folder / save.manifest.generation;
  save.written =
      std::async(std::launch::async, [this, folder, parts = copied_parts(store, store.snapshot())] {
        yield_to_training();
        try {
          return write_own(parts, folder);
        } catch (...) {
          failed_ = true;
          throw;
        }
      });
  under_way_ = std::move(save);
}

void Checkpoints::write_now(UnitStore& store, const RunState& state) {
  const Clock::time_point start = Clock::now();
  const Manifest manifest = manifest_head(run_, config_, state);
  CheckpointFile own;
  std::vector<float> room;
  const std::vector<ShardPart> parts = host_parts(store, room);
  or_discard(manifest.generation, [&] {
    attempt_at_length(world_,
                      [&] { own = write_own(parts, options_.folder / manifest.generation); });
    const std::vector<std::string> in_use = copies_.unfinished();
    attempt_at_length(world_, [&] {
      if (world_.rank() == 0) publish_all(manifest, in_use);
    });
  });
  keep(record_of(manifest), start);
  copies_.add(manifest, std::move(own), start);
}

SaveStatus Checkpoints::status() const {
  SaveStatus status;
  const double every_s = config_.checkpoint.every_s;
  // One clock for all ranks.
  status.is_due = world_.rank() == 0 && every_s > 0 && seconds_since(last_save_) >= every_s;
  status.saved = under_way_ &&
                 under_way_->written.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  status.save_failed = status.saved && failed_;
  copies_.report(status);
  return status;
}

void Checkpoints::note(const SaveTotals& totals) {
  time_is_up_ = totals.due > 0;
  copies_.note(totals);
  if (!under_way_ || totals.saved < world_.size()) return;
  UnderWay save = std::move(*under_way_);
  under_way_.reset();
  CheckpointFile own;
  try {
    own = save.written.get();
  } catch (const Error& error) {
    warn_of(kNotWritten, error);
  }
  failed_ = false;
  if (totals.saves_failed > 0) {
    if (world_.rank() == 0) discard_or_warn(storage_, options_.folder / save.manifest.generation);
    return;
  }
  copies_.add(save.manifest, std::move(own), save.start);
  if (world_.rank() == 0) publish_in_background(std::move(save));
}

void Checkpoints::publish_in_background(UnderWay save) {
  finish_publishing();
  publishing_ =
      std::async(std::launch::async, [this, manifest = save.manifest, record = save.record,
                                      start = save.start, in_use = copies_.unfinished()] {
        yield_to_training();
        or_discard(manifest.generation, [&] { publish_all(manifest, in_use); });
        keep(record, start);
      });
}

void Checkpoints::finish_publishing() {
  if (!publishing_.valid()) return;
  try {
    publishing_.get();
  } catch (const Error& error) {
    warn_of(kNotWritten, error);
  }
}

// What all ranks have ended leaves nothing behind that takes the room of the next save.
void Checkpoints::or_discard(const std::string& generation, const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    if (world_.rank() == 0 && is_survivable(error)) {
      discard_or_warn(storage_, options_.folder / generation);
    }
    throw;
  }
}

// Collective where a save is under way: it is complete on return.
void Checkpoints::settle() {
  finish_publishing();
  if (!under_way_) return;
  UnderWay save = std::move(*under_way_);
  under_way_.reset();
  urgent_ = true;
  try {
    wait_together(world_, [&](std::chrono::milliseconds patience) {
      return save.written.wait_for(patience) == std::future_status::ready;
    });
  } catch (...) {
    cancelled_ = true;
    throw;
  }
  urgent_ = false;
  failed_ = false;
  CheckpointFile own;
  or_discard(save.manifest.generation, [&] {
    attempt_together(world_, [&] { own = save.written.get(); });
    const std::vector<std::string> in_use = copies_.unfinished();
    attempt_at_length(world_, [&] {
      if (world_.rank() == 0) publish_all(save.manifest, in_use);
    });
  });
  keep(save.record, save.start);
  copies_.add(save.manifest, std::move(own), save.start);
}

void Checkpoints::settle_or_warn() {
  try {
    settle();
  } catch (const Error& error) {
    if (!is_survivable(error)) throw;
    warn_of(kNotWritten, error);
  }
}

void Checkpoints::keep(CheckpointRecord record, Clock::time_point start) {
  record.write_s = seconds_since(start);
  records_.push_back(std::move(record));
}

std::vector<CheckpointRecord> Checkpoints::finish() {
  finish_publishing();
  copies_.finish();
  for (CheckpointRecord& record : records_)
    record.durable_s = copies_.seconds_of(record.generation);
  return std::move(records_);
}

}  // namespace nqd::engine

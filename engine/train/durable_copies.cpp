#include "engine/train/durable_copies.h"

#include <utility>

#include "base/error.h"
#include "engine/checkpoint/keep.h"
#include "engine/checkpoint/shard.h"
#include "engine/parallel/agree.h"
#include "engine/train/background.h"

namespace nqd::engine {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kNotCopied = "a checkpoint was not copied to checkpoint.durable_path";

}  // namespace

DurableCopies::DurableCopies(collectives::Communicator& world, const planner::CheckpointSpec& spec,
                             Storage& storage, std::filesystem::path fast)
    : world_(world),
      spec_(spec),
      storage_(storage),
      fast_(std::move(fast)),
      durable_(spec.durable_path) {}

DurableCopies::~DurableCopies() { cancelled_ = true; }

void DurableCopies::add(const Manifest& head, CheckpointFile own, Clock::time_point start) {
  if (!exist()) return;
  Job job{head, {}, {std::move(own)}, start};
  for (int rank = 0; rank < world_.size(); ++rank) job.names.push_back(shard_name(rank));
  enqueue(std::move(job));
}

void DurableCopies::add_found(const Manifest& manifest) {
  bool wanted = false;
  attempt_together(world_, [&] {
    if (world_.rank() == 0) wanted = needs_copy(manifest.generation);
  });
  world_.broadcast(std::as_writable_bytes(std::span(&wanted, 1)), 0);
  if (!wanted) return;
  Job job{manifest, {}, {}, Clock::now()};
  const auto ranks = static_cast<std::size_t>(world_.size());
  for (std::size_t i = 0; i < manifest.files.size(); ++i) {
    job.names.push_back(manifest.files[i].name);
    if (i % ranks == static_cast<std::size_t>(world_.rank())) job.own.push_back(manifest.files[i]);
  }
  job.manifest.files.clear();
  enqueue(std::move(job));
}

bool DurableCopies::needs_copy(const std::string& generation) {
  try {
    const std::optional<Latest> latest = read_latest(storage_, durable_);
    if (latest && latest->generation == generation) return false;
  } catch (const Error&) {
    // A damaged LATEST is replaced by that of the copy.
  }
  // One that LATEST does not name may be cut short; written over it would look whole.
  const std::filesystem::path folder = durable_ / generation;
  if (storage_.exists(folder)) remove_generation(storage_, folder);
  return true;
}

void DurableCopies::enqueue(Job job) {
  std::erase_if(waiting_, [this](const Job& one) {
    return spec_.keep_every == 0 || one.manifest.state.step % spec_.keep_every != 0;
  });
  is_unsure_ = false;
  failure_.reset();
  waiting_.push_back(std::move(job));
  if (!active_) start_next();
}

void DurableCopies::start_next() {
  if (waiting_.empty()) return;
  active_ = std::move(waiting_.front());
  waiting_.pop_front();
  copied_ = std::async(std::launch::async, [this, job = *active_] {
    yield_to_training();
    try {
      as_fault([&] { copy_own(job); });
    } catch (...) {
      failed_ = true;
      throw;
    }
  });
}

void DurableCopies::copy_own(const Job& job) {
  ShardOptions options;
  options.bytes_per_s = spec_.bytes_per_s;
  options.is_cancelled = [this] { return cancelled_.load(); };
  options.is_urgent = [this] { return urgent_.load(); };
  const std::filesystem::path to = durable_ / job.manifest.generation;
  storage_.make_folder(to);
  for (const CheckpointFile& file : job.own) {
    copy_shard(storage_, fast_ / job.manifest.generation, to, file, options);
    write_record(storage_, to, file);
  }
}

void DurableCopies::publish_copy(const Job& job, const std::vector<std::string>& in_use) {
  as_fault([&] {
    publish_recorded(storage_, durable_, job.manifest, job.names);
    seconds_[job.manifest.generation] =
        std::chrono::duration<double>(Clock::now() - job.start).count();
  });
  prune_or_warn(storage_, durable_, {spec_.keep_last, spec_.keep_every, spec_.keep_interval_s},
                in_use);
}

// What all ranks have ended leaves nothing behind that takes the room of the next copy.
void DurableCopies::or_discard(const std::string& generation, const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    if (world_.rank() == 0 && is_survivable(error)) {
      discard_or_warn(storage_, durable_ / generation);
    }
    throw;
  }
}

void DurableCopies::report(SaveStatus& status) const {
  status.copied = active_ && copied_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  status.copy_failed = status.copied && failed_;
}

void DurableCopies::note(const SaveTotals& totals) {
  if (!active_ || totals.copied < world_.size()) return;
  Job job = std::move(*active_);
  active_.reset();
  try {
    copied_.get();
  } catch (const Error& error) {
    warn_of(kNotCopied, error);
    failure_ = error;
  }
  failed_ = false;
  is_unsure_ = true;
  if (totals.copies_failed > 0) {
    if (world_.rank() == 0) discard_or_warn(storage_, durable_ / job.manifest.generation);
  } else if (world_.rank() == 0) {
    finish_publishing();
    publishing_ =
        std::async(std::launch::async, [this, job = std::move(job), in_use = unfinished()] {
          yield_to_training();
          or_discard(job.manifest.generation, [&] { publish_copy(job, in_use); });
        });
  }
  start_next();
}

void DurableCopies::finish_publishing() {
  if (!publishing_.valid()) return;
  try {
    publishing_.get();
  } catch (const Error& error) {
    warn_of(kNotCopied, error);
  }
}

std::vector<std::string> DurableCopies::unfinished() const {
  std::vector<std::string> names;
  if (active_) names.push_back(active_->manifest.generation);
  for (const Job& job : waiting_) names.push_back(job.manifest.generation);
  return names;
}

void DurableCopies::settle_active() {
  const Job job = std::move(*active_);
  active_.reset();
  try {
    wait_together(world_, [&](std::chrono::milliseconds patience) {
      return copied_.wait_for(patience) == std::future_status::ready;
    });
  } catch (...) {
    cancelled_ = true;
    throw;
  }
  failed_ = false;
  or_discard(job.manifest.generation, [&] {
    attempt_together(world_, [&] { copied_.get(); });
    attempt_at_length(world_, [&] {
      if (world_.rank() == 0) publish_copy(job, unfinished());
    });
  });
}

void DurableCopies::finish() {
  if (!active_) {
    if (!std::exchange(is_unsure_, false)) return;
    attempt_at_length(world_, [&] {
      if (failure_) throw *failure_;
      if (publishing_.valid()) publishing_.get();
    });
    return;
  }
  finish_publishing();
  urgent_ = true;
  while (active_) {
    try {
      settle_active();
    } catch (const Error& error) {
      if (waiting_.empty() || !is_survivable(error)) throw;
      warn_of(kNotCopied, error);
    }
    start_next();
  }
  urgent_ = false;
}

std::optional<double> DurableCopies::seconds_of(const std::string& generation) const {
  const auto found = seconds_.find(generation);
  return found == seconds_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace nqd::engine

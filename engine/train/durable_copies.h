// Copies of complete generations in a second folder, on storage that outlives the node.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "collectives/communicator.h"
#include "engine/checkpoint/generations.h"
#include "engine/checkpoint/manifest.h"
#include "engine/checkpoint/storage.h"
#include "engine/train/step_totals.h"
#include "planner/spec.h"

namespace nqd::engine {

// Every rank copies files of a generation on a thread of its own; ranks learn in the sums of a step
// that all have, and rank 0 then makes the copy count. One copy at a time. Of generations that come
// meanwhile only the last is copied next, and those that checkpoint.keep_every keeps for good. All
// ranks add, note and finish in the same order. Without checkpoint.durable_path nothing is done.
class DurableCopies {
 public:
  // All must outlive it. `fast` is the folder of the generations.
  DurableCopies(collectives::Communicator& world, const planner::CheckpointSpec& spec,
                Storage& storage, std::filesystem::path fast);
  // Gives up a copy that is under way.
  ~DurableCopies();
  DurableCopies(const DurableCopies&) = delete;
  DurableCopies& operator=(const DurableCopies&) = delete;

  bool exist() const { return !durable_.empty(); }

  // A generation whose step was made at `start`, with this rank's file of it, which is written.
  void add(const Manifest& head, CheckpointFile own, std::chrono::steady_clock::time_point start);
  // Collective. A complete one that an earlier run saved, unless the copy of it is there.
  void add_found(const Manifest& manifest);

  // Fills in what the copy that is under way has come to.
  void report(SaveStatus& status) const;
  // Every step: of how many ranks.
  void note(const SaveTotals& totals);
  // What waits or is being copied, and must stay.
  std::vector<std::string> unfinished() const;

  // Collective where there is a durable folder. All are copied on return. Throws Error on all
  // ranks, those of copy_shard and Storage, when the last one could not be.
  void finish();
  // Seconds from a generation's step to a copy that counts; on rank 0, after finish.
  std::optional<double> seconds_of(const std::string& generation) const;

 private:
  struct Job {
    Manifest manifest;                // but for its files
    std::vector<std::string> names;   // of all files
    std::vector<CheckpointFile> own;  // those that this rank copies
    std::chrono::steady_clock::time_point start;
  };

  bool needs_copy(const std::string& generation);
  void enqueue(Job job);
  void start_next();
  void copy_own(const Job& job);
  void publish_copy(const Job& job, const std::vector<std::string>& in_use);
  void or_discard(const std::string& generation, const std::function<void()>& f);
  void finish_publishing();
  void settle_active();

  collectives::Communicator& world_;
  const planner::CheckpointSpec& spec_;
  Storage& storage_;
  const std::filesystem::path fast_;
  const std::filesystem::path durable_;  // empty: none
  std::deque<Job> waiting_;
  std::optional<Job> active_;  // on all ranks or on none
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> urgent_{false};  // somebody waits
  std::atomic<bool> failed_{false};  // the copy that is under way, here
  std::map<std::string, double> seconds_;
  // Ranks have not told one another how the last copy ended.
  bool is_unsure_ = false;
  std::optional<Error> failure_;  // of it, here
  // Behind all that their threads use.
  std::future<void> copied_;      // this rank's files of the copy that is under way
  std::future<void> publishing_;  // on rank 0
};

}  // namespace nqd::engine

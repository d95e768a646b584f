// Saving a run as it goes, and going on from a save.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collectives/communicator.h"
#include "engine/checkpoint/compatible.h"
#include "engine/checkpoint/generations.h"
#include "engine/checkpoint/reader.h"
#include "engine/checkpoint/shard.h"
#include "engine/parallel/store/unit_store.h"
#include "engine/records.h"
#include "planner/spec.h"

namespace nqd::engine {

struct CheckpointOptions {
  std::filesystem::path folder;  // of the generations; empty: the run cannot save
  // A generation, or a folder of them; empty: the run starts anew. One that has none yet starts
  // anew too.
  std::filesystem::path resume;
  RunValues values;  // but for data.digest; on all ranks
  std::vector<std::string> allowed_changes;
};

// Where one rank is with a save that is under way.
struct SaveStatus {
  bool saved = false;  // its file is written, or given up
  bool failed = false;
};

// A save copies the state and lets training go on (checkpoint.async), or writes it at once. The
// copy is written on a thread of its own; ranks learn in the sums of a step that all have written,
// and rank 0 then makes the generation count. One save at a time: the next waits for it.
class Checkpoints {
 public:
  // All must outlive it.
  Checkpoints(collectives::Communicator& world, const planner::Config& config,
              const CheckpointOptions& options, Storage& storage);
  // Gives up a save that is under way.
  ~Checkpoints();
  Checkpoints(const Checkpoints&) = delete;
  Checkpoints& operator=(const Checkpoints&) = delete;

  // Collective. What the run goes on from, checked: null for a run that starts anew. `data_digest`
  // is rank 0's. Throws Error (kUsage) on all ranks: those of CheckpointReader and check_resumable;
  // NQD2085 when a run that starts anew would write among the generations of another.
  std::unique_ptr<CheckpointReader> open(const std::string& data_digest);

  // Whether the run saves after this step, unless it is asked to stop.
  bool is_due(std::int64_t step) const;
  // Collective. Begins a complete generation of the step; without room for a copy it is complete
  // when this returns. A save that fails on the way is a warning, and the generation before it
  // stays whole. Throws Error on all ranks (those of write_shard) only when `must_last`: then the
  // save is complete on return, or the error of a rank that could not write.
  void save(UnitStore& store, const RunState& state, bool must_last);

  SaveStatus status() const;
  // Every step: how many ranks said that they had saved, or failed.
  void note(std::int64_t saved, std::int64_t failed);

  // What is complete; on rank 0. To be asked at the end.
  std::vector<CheckpointRecord> take_records();

 private:
  struct UnderWay {
    Manifest manifest;
    CheckpointRecord record;
    std::chrono::steady_clock::time_point start;
    std::future<void> written;  // this rank's file
  };

  std::string agreed_resume();
  Manifest head(const UnitStore& store, const RunState& state) const;
  void write_own(std::span<const ShardPart> parts, const std::filesystem::path& folder);
  void begin(UnitStore& store, const RunState& state);
  void settle();
  void write_now(UnitStore& store, const RunState& state);
  void publish_all(const Manifest& manifest);
  void publish_in_background(UnderWay save);
  void finish_publishing();
  void keep(CheckpointRecord record, std::chrono::steady_clock::time_point start);

  collectives::Communicator& world_;
  const planner::Config& config_;
  const CheckpointOptions& options_;
  Storage& storage_;
  std::string run_;  // 8 hexadecimal digits, the same on all ranks
  std::string data_digest_;
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> urgent_{false};    // somebody waits for the writer
  std::atomic<bool> failed_{false};    // the writer
  std::optional<UnderWay> under_way_;  // on all ranks or on none
  std::future<void> publishing_;       // on rank 0
  std::vector<CheckpointRecord> records_;
};

}  // namespace nqd::engine

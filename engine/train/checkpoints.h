// Saving a run as it goes, and going on from a save.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collectives/communicator.h"
#include "engine/checkpoint/head.h"
#include "engine/checkpoint/reader.h"
#include "engine/checkpoint/shard.h"
#include "engine/parallel/store/unit_store.h"
#include "engine/records.h"
#include "engine/train/durable_copies.h"
#include "engine/train/resume_source.h"
#include "engine/train/step_totals.h"
#include "planner/spec.h"

namespace nqd::engine {

// A save copies the state and lets training go on (checkpoint.async), or writes it at once. The
// copy is written on a thread of its own; ranks learn in the sums of a step that all have written,
// and rank 0 then makes the generation count. One save at a time: the next waits for it. A complete
// generation is copied to checkpoint.durable_path (durable_copies.h).
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
  // NQD2085 when it would write among the generations of a run that it does not go on from, NQD2086
  // when it would copy them to where they are. Nobody else saves to its folders: what saves that
  // were cut short left there is removed.
  std::unique_ptr<CheckpointReader> open(const std::string& data_digest);

  // Collective. ResumeSource::go_back for a run whose last step was `step`, with a save that is
  // under way completed. Where it skipped a generation, what the run saves from here on has names
  // of its own, as that of a run that went on from the older one.
  ResumeSource::GoneBack go_back(std::int64_t step,
                                 const std::function<void(const CheckpointReader&)>& restore);

  // Whether the run saves after this step, for which note was called, unless it is asked to stop.
  bool is_due(std::int64_t step) const;
  // Collective. Begins a complete generation of the step; without room for a copy it is complete
  // when this returns. A save that fails on the way is a warning, and leaves nothing but the
  // generation before it, whole. Throws Error on all ranks (those of write_shard) only when
  // `must_last`: then the save and its copy are complete on return, or the error of a rank that
  // could not write.
  void save(UnitStore& store, const RunState& state, bool must_last);

  SaveStatus status() const;
  // Every step: how many ranks said what.
  void note(const SaveTotals& totals);

  // Collective. At the end, behind the last save: all is copied on return. What is complete; on
  // rank 0. Throws Error on all ranks when the last generation could not be copied.
  std::vector<CheckpointRecord> finish();

 private:
  struct UnderWay {
    Manifest manifest;
    CheckpointRecord record;
    std::chrono::steady_clock::time_point start;
    std::future<CheckpointFile> written;  // this rank's file
  };

  CheckpointFile write_own(std::span<const ShardPart> parts, const std::filesystem::path& folder);
  void begin(UnitStore& store, const RunState& state);
  void remove_cut_saves();
  void or_discard(const std::string& generation, const std::function<void()>& f);
  void settle();
  void settle_or_warn();
  void write_now(UnitStore& store, const RunState& state);
  void publish_all(const Manifest& manifest, const std::vector<std::string>& in_use);
  void publish_in_background(UnderWay save);
  void prune_own(const std::vector<std::string>& in_use);
  void finish_copies();
  void finish_publishing();
  void keep(CheckpointRecord record, std::chrono::steady_clock::time_point start);

  collectives::Communicator& world_;
  const planner::Config& config_;
  const CheckpointOptions& options_;
  Storage& storage_;
  ResumeSource source_;
  SavedRun run_;                                     // the same on all ranks
  std::chrono::steady_clock::time_point last_save_;  // when it began
  bool time_is_up_ = false;                          // checkpoint.every_s
  std::filesystem::path resumed_from_;               // a generation; empty: the run started anew
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> urgent_{false};  // somebody waits for the writer
  std::atomic<bool> failed_{false};  // the writer
  std::vector<CheckpointRecord> records_;
  DurableCopies copies_;
  // Behind all that their threads use.
  std::optional<UnderWay> under_way_;  // on all ranks or on none
  std::future<void> publishing_;       // on rank 0
};

}  // namespace nqd::engine

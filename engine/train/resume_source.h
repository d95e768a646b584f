// Which generation a run goes on from, and which it goes back to.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "collectives/communicator.h"
#include "engine/checkpoint/compatible.h"
#include "engine/checkpoint/generations.h"
#include "engine/checkpoint/head.h"
#include "engine/checkpoint/reader.h"
#include "planner/spec.h"

namespace nqd::engine {

struct CheckpointOptions {
  // Of the generations, and of nobody else while the run lasts; empty: the run cannot save.
  std::filesystem::path folder;
  // A generation, or a folder of them; empty: the run starts anew. One that has none yet starts
  // anew too. The folder of the run itself: or the copy of one, where that is newer, or all that
  // there is. Where the newest in a folder is damaged, the next older one that is whole.
  std::filesystem::path resume;
  RunValues values;  // but for data.digest; on all ranks
  std::vector<std::string> allowed_changes;
};

// Whether a run saves before it is asked to stop.
bool saves_on_its_way(const planner::CheckpointSpec& spec);

// Rank 0 chooses, and all ranks read what it chose. All that it is given must outlive it.
class ResumeSource {
 public:
  ResumeSource(collectives::Communicator& world, const planner::CheckpointSpec& spec,
               const CheckpointOptions& options, const Storage& storage)
      : world_(world), spec_(spec), options_(options), storage_(storage) {}

  // Collective. Checkpoints::open, of a run that is as `run` says.
  std::unique_ptr<CheckpointReader> open(const SavedRun& run);

  struct GoneBack {
    std::unique_ptr<CheckpointReader> reader;  // null: there was none, or none that can be read
    std::vector<std::string> skipped;          // why newer ones could not, a sentence each
  };
  // Collective. Calls `restore` on all ranks with the newest generation behind at most `step` of
  // the run and those it went on from, in its folders and in that of `resumed_from` (empty: it
  // started anew); where one is damaged or the disk does not let it be read, with the next older
  // one. Warns of those.
  GoneBack go_back(const SavedRun& run, std::int64_t step,
                   const std::filesystem::path& resumed_from,
                   const std::function<void(const CheckpointReader&)>& restore);

 private:
  std::vector<FoundGeneration> candidates() const;
  void refuse_one_folder() const;
  void refuse_to_mix(const CheckpointReader* source) const;
  bool has_others(const std::filesystem::path& folder, const CheckpointReader* source) const;
  std::vector<std::string> agreed_candidates();
  std::unique_ptr<CheckpointReader> open_checked(const SavedRun& run, const std::string& folder,
                                                 bool thoroughly);
  std::vector<std::filesystem::path> past_generations(
      const SavedRun& run, std::int64_t step, const std::filesystem::path& resumed_from) const;

  collectives::Communicator& world_;
  const planner::CheckpointSpec& spec_;
  const CheckpointOptions& options_;
  const Storage& storage_;
};

}  // namespace nqd::engine

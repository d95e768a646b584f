// Saving a run as it goes, and going on from a save.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "collectives/communicator.h"
#include "engine/checkpoint/compatible.h"
#include "engine/checkpoint/generations.h"
#include "engine/checkpoint/reader.h"
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

class Checkpoints {
 public:
  // All must outlive it.
  Checkpoints(collectives::Communicator& world, const planner::Config& config,
              const CheckpointOptions& options, Storage& storage);

  // Collective. What the run goes on from, checked: null for a run that starts anew. `data_digest`
  // is rank 0's. Throws Error (kUsage) on all ranks: those of CheckpointReader and check_resumable;
  // NQD2085 when a run that starts anew would write among the generations of another.
  std::unique_ptr<CheckpointReader> open(const std::string& data_digest);

  // Whether the run saves after this step, unless it is asked to stop.
  bool is_due(std::int64_t step) const;
  // Collective. A complete generation of the step, then what the policy does not keep is removed.
  // Throws Error on all ranks when any of them could not write or read back.
  CheckpointRecord save(UnitStore& store, const RunState& state);

 private:
  std::string agreed_resume();
  Manifest head(const UnitStore& store, const RunState& state) const;
  void write_own(UnitStore& store, const std::filesystem::path& folder);
  void publish_all(Manifest manifest);

  collectives::Communicator& world_;
  const planner::Config& config_;
  const CheckpointOptions& options_;
  Storage& storage_;
  std::string run_;  // 8 hexadecimal digits, the same on all ranks
  std::string data_digest_;
};

}  // namespace nqd::engine

// One training run between joining the world and leaving it: outputs opened, engine run, evidence
// written whatever happens.
#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <vector>

#include "base/error.h"
#include "collectives/communicator.h"
#include "engine/records.h"
#include "planner/config/config.h"
#include "planner/plan.h"
#include "reports/envelope.h"

namespace nqd::cli {

struct TrainRunOptions {
  std::string output_dir;  // empty: runs/CONFIG-NAME
  bool json = false;
};

class TrainRun {
 public:
  TrainRun(const TrainRunOptions& options, const std::vector<std::string>& argv,
           const planner::LoadedConfig& loaded, const planner::Plan& plan);

  // Collective: the body of every rank. Rank 0 owns the run folder; when it is lost, the lowest
  // survivor writes the evidence.
  void run_rank(collectives::Communicator& world);
  bool audit_ok() const { return audit_ok_; }

 private:
  std::string output_dir() const;
  reports::Envelope begin(const collectives::Communicator& world) const;
  void write_fault_evidence(const collectives::Communicator& world, const Error& error,
                            engine::TrainResult& result) const;

  const TrainRunOptions& options_;
  const std::vector<std::string>& argv_;
  const planner::LoadedConfig& loaded_;
  const planner::Plan& plan_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::string started_at_ = reports::now_utc();
  std::atomic<bool> audit_ok_{true};  // ranks may be threads
};

}  // namespace nqd::cli

// One training run between joining the world and leaving it: outputs opened, engine run, evidence
// written whatever happens.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "collectives/communicator.h"
#include "engine/checkpoint/locks.h"
#include "engine/data/training_data.h"
#include "engine/io/hugging_face.h"
#include "engine/io/run_folder.h"
#include "engine/records.h"
#include "engine/train/checkpoints.h"
#include "engine/train/make_device.h"
#include "planner/config/config.h"
#include "planner/plan/plan.h"
#include "reports/envelope.h"

namespace nqd::cli {

struct TrainRunOptions {
  std::string output_dir;      // empty: runs/CONFIG-NAME
  std::string init_weights;    // a Hugging Face checkpoint; empty: from train.seed
  std::string export_weights;  // a folder for one; empty: none
  DType export_type = DType::kFloat32;
  std::string save_weights;  // a .safetensors file under nqd's own names; empty: none
  std::string resume;        // "auto", a generation or a folder of them; empty: start anew
  std::vector<std::string> allowed_changes;
  bool canary = false;     // refuse to start where a device or link is slow
  double deadline_s = 60;  // of a wait for another rank
  engine::DeviceKind device = engine::DeviceKind::kCpu;
  bool step_graph = true;  // of a GPU that can (engine/device/device.h: repeat)
  engine::MessagePath messages = engine::MessagePath::kAuto;
  double max_s = 0;             // save and stop after so many seconds; 0: never
  std::int64_t stop_after = 0;  // save and stop after this step; 0: after none
  bool json = false;
};

class TrainRun {
 public:
  TrainRun(const TrainRunOptions& options, const std::vector<std::string>& argv,
           const planner::LoadedConfig& loaded, const planner::Plan& plan);

  // Collective: the body of every rank. Rank 0 owns the run folder; when it is lost, the lowest
  // survivor writes the evidence.
  void run_rank(collectives::Communicator& world);
  // WorldOptions::last_words: writes the evidence of a fault for a rank that is a process and whose
  // body is not coming back. Does nothing unless this rank is the one to write it.
  void last_words(const Error& error) noexcept;
  bool audit_ok() const { return audit_ok_; }
  // On request, behind a save.
  bool stopped() const { return stopped_; }

 private:
  // What a rank has opened before the first step. Rank 0 alone has what is written.
  struct Files {
    std::unique_ptr<engine::TrainingData> data;
    std::unique_ptr<engine::HuggingFaceWeights> initial;
    std::unique_ptr<engine::RunFolder> folder;
    engine::CheckpointLocks checkpoints;
    std::unique_ptr<AtomicFile> evidence;
    std::unique_ptr<engine::HuggingFaceExport> exported;
    std::unique_ptr<engine::SafetensorsWriter> saved;
  };

  std::string output_dir() const;
  double host_bytes_of(int rank) const;
  engine::CheckpointOptions checkpoint_options() const;
  bool is_time_to_stop(const engine::TrainResult& so_far) const;
  // What a rank has to show so far; the watchdog's thread may ask for it at any time.
  struct Shown {
    std::mutex mutex;
    bool running = false;
    bool fault_written = false;
    int rank = 0;
    int world_size = 1;
    engine::TrainResult result;
    // Where the run went on from.
    void take_over(const engine::TrainResult& own);
  };

  reports::Envelope begin(const engine::TrainResult& result, int world_size) const;
  Files open_files(const collectives::Communicator& world) const;
  void run_engine(collectives::Communicator& world, const Files& files, Shown& shown,
                  engine::TrainResult& result);
  void finish(const engine::TrainResult& result, int world_size, const Files& files) const;
  void write_fault_evidence(const Error& error, Shown& shown) const;

  const TrainRunOptions& options_;
  const std::vector<std::string>& argv_;
  const planner::LoadedConfig& loaded_;
  const planner::Plan& plan_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::string started_at_ = reports::now_utc();
  std::atomic<bool> audit_ok_{true};  // ranks may be threads
  std::atomic<bool> stopped_{false};
  Shown process_;  // of the rank that is this process, or of rank 0 of its threads
};

}  // namespace nqd::cli

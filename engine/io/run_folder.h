// The folder of one run: locked against a second run, checked for writing before work starts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "engine/io/folder_lock.h"

namespace nqd::engine {

// Removes unfinished evidence that a killed process left in a run's folder. Only for who knows that
// no live process writes there: the holder of the lock, or a survivor of the holder.
void remove_unfinished_evidence(const std::filesystem::path& folder);

class RunFolder {
 public:
  // Creates the folder and holds an exclusive lock on it (FOLDER/.lock; the kernel releases it when
  // this process ends, however it ends). Throws Error: kUsage NQD2002 when the folder cannot be
  // made or written, kEnvironment NQD2010 when another run holds it (its process named), kFault
  // NQD4003 when the file system has less than `needed_bytes` free.
  RunFolder(std::filesystem::path folder, std::uint64_t needed_bytes);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::filesystem::path& path() const { return folder_; }
  std::filesystem::path evidence_path() const { return folder_ / "evidence.json"; }
  std::filesystem::path metrics_path() const { return folder_ / "metrics.jsonl"; }

  // Before the first line of a run that goes on from a save: keeps of the earlier metrics those up
  // to the last line of `step`, and says behind them that the run went on there. Nothing once a
  // line was appended.
  void continue_after(std::int64_t step);
  // Appends one line (a newline is added) as one write: a killed run leaves whole lines. The first
  // line begins a new run's results: earlier metrics and evidence are kept as
  // metrics.previous.jsonl and evidence.previous.json. Throws Error (kFault, NQD4003) when the disk
  // is full.
  void append_metrics(std::string_view line);

 private:
  void check_space(std::uint64_t needed_bytes) const;
  void begin_results();
  void keep_previous(const std::filesystem::path& from, const std::filesystem::path& to);
  void open_metrics();

  std::filesystem::path folder_;
  FolderLock lock_;
  int metrics_ = -1;
};

}  // namespace nqd::engine

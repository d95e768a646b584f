// The steps of `nqd accept`, each with its raw document in one folder.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "reports/accept_json.h"

namespace nqd::cli {

struct AcceptOptions {
  std::string cluster;      // a calibration, or what `nqd bench --cluster` takes; empty: none
  int ranks = 2;            // of canary and sweeps
  std::string hosts;        // "a:8,b:8" for mpirun -host; empty: the launcher's own
  bool threads = false;     // ranks are threads, not processes
  std::string end = "64M";  // of the sweeps
  std::vector<std::string> configs = {"configs"};
  std::string workload = "configs/crop-parity.yaml";
  std::vector<std::string> overrides;  // --set of the workload
  std::filesystem::path folder;
};

// The configs that `paths` name: files, and all *.yaml of folders and of their folders `parity` and
// `invalid`; those in a folder `invalid` should be rejected. In the order of their names. Throws
// Error (kUsage, NQD2001) for a path that has none.
std::vector<reports::AcceptConfig> find_configs(const std::vector<std::string>& paths);

class AcceptanceRun {
 public:
  // `program`: as this one was called.
  AcceptanceRun(const AcceptOptions& options, std::string program);

  // Stops at the first step that fails. `on_step` hears of each before it begins.
  reports::Acceptance run(const std::function<void(const std::string&)>& on_step);

 private:
  using Step = std::function<void(reports::AcceptStep&)>;

  void canary(reports::AcceptStep& step) const;
  void sweep(reports::AcceptStep& step) const;
  void plan_configs(reports::AcceptStep& step);
  void parity(reports::AcceptStep& step) const;
  // Runs `arguments` of this program into the step's document, as `ranks` ranks where asked. False
  // when it ended with another code than 0 or 1, which the step then says.
  bool run_command(reports::AcceptStep& step, std::vector<std::string> arguments,
                   bool on_ranks) const;

  const AcceptOptions& options_;
  const std::string program_;
  reports::Acceptance result_;
};

}  // namespace nqd::cli

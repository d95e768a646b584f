// `mpirun -n N nqd train …` as a child of a command that compares runs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/records.h"
#include "planner/spec.h"

namespace nqd::cli {

// Whether `mpirun` is on the PATH.
bool has_mpirun();
// Throws Error (kEnvironment, NQD3008) when it is not.
void require_mpirun();

// Values of --set that give a config file the mesh, threads, steps, precision, numerics,
// recomputation and data of `config`.
std::vector<std::string> overrides_of(const planner::Config& config);

struct MpiTraining {
  std::string config;                  // its file
  std::vector<std::string> overrides;  // --set: the last of a key counts
  std::int64_t ranks = 1;
  std::filesystem::path folder;    // of the run
  std::vector<std::string> flags;  // further ones of `nqd train`
};

struct MpiTrained {
  int exit_code = 0;  // 128 + the signal that ended it
  std::string said;   // the end of what the processes said
  // Ended on its own, by its last step or on request; its audit may have failed. Not: a fault, or a
  // config that was refused.
  bool complete = false;
  engine::TrainResult result;  // of its evidence; empty unless complete
};

// Runs this program's `train` and reads the evidence that it leaves in the folder. Throws Error
// (kEnvironment, NQD3008) when mpirun cannot be started.
MpiTrained train_under_mpi(const MpiTraining& training);

}  // namespace nqd::cli

#include "cli/launch/mpi_train.h"

#include <unistd.h>

#include <cstdlib>
#include <sstream>
#include <utility>

#include "base/error.h"
#include "cli/launch/child_output.h"
#include "reports/evidence.h"

namespace nqd::cli {
namespace {

constexpr const char* kHint = "install Open MPI or MPICH, or pass --launcher threads";

std::string text_of(bool value) { return value ? "true" : "false"; }

std::vector<std::string> command_of(const MpiTraining& training) {
  std::vector<std::string> words = {"mpirun",
                                    "-n",
                                    std::to_string(training.ranks),
                                    std::filesystem::read_symlink("/proc/self/exe").string(),
                                    "train",
                                    training.config,
                                    "--output-dir",
                                    training.folder.string()};
  words.insert(words.end(), training.flags.begin(), training.flags.end());
  for (const std::string& change : training.overrides) {
    words.emplace_back("--set");
    words.push_back(change);
  }
  return words;
}

// More ranks than cores are what such a run is about.
const std::vector<std::string> kVariables = {"OMPI_MCA_rmaps_base_oversubscribe=1",
                                             "OMPI_MCA_hwloc_base_binding_policy=none"};

}  // namespace

bool has_mpirun() {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (::access((folder + "/mpirun").c_str(), X_OK) == 0) return true;
  }
  return false;
}

void require_mpirun() {
  if (has_mpirun()) return;
  throw Error(ExitCode::kEnvironment, "NQD3008", "mpirun is not on the PATH", kHint);
}

std::vector<std::string> overrides_of(const planner::Config& config) {
  const planner::ParallelSpec& mesh = config.parallel;
  const planner::TrainSpec& train = config.train;
  return {"cluster.nodes=1",
          "cluster.gpus_per_node=" + std::to_string(config.cluster.gpus_per_node),
          "parallel.engine=" + std::string(name(mesh.engine)),
          "parallel.world_size=" + std::to_string(mesh.ranks()),
          "parallel.dp=" + std::to_string(mesh.dp),
          "parallel.tp=" + std::to_string(mesh.tp),
          "parallel.pp=" + std::to_string(mesh.pp),
          "parallel.vpp=" + std::to_string(mesh.vpp),
          "parallel.hsdp_shard=" + std::to_string(mesh.hsdp_shard),
          "parallel.schedule=" + std::string(name(mesh.schedule)),
          "parallel.sequence_parallel=" + text_of(mesh.sequence_parallel),
          "train.recompute=" + std::string(name(train.recompute)),
          "train.recompute_every=" + std::to_string(train.recompute_every),
          "train.threads=" + std::to_string(train.threads),
          "train.steps=" + std::to_string(train.steps),
          "train.precision=" + std::string(name(train.precision)),
          "numerics.mode=" + std::string(name(config.numerics.mode)),
          "data.path=" + config.data.path};
}

MpiTrained train_under_mpi(const MpiTraining& training) {
  std::filesystem::create_directories(training.folder);
  MpiTrained trained;
  const std::filesystem::path output = training.folder / "output";
  trained.exit_code = run_to_file(command_of(training), output, kVariables);
  trained.said = last_lines(output);
  const std::filesystem::path evidence = training.folder / "evidence.json";
  const bool ended = trained.exit_code == 0 || trained.exit_code == 1 || trained.exit_code == 75;
  trained.complete = ended && std::filesystem::exists(evidence);
  if (trained.complete) trained.result = reports::read_evidence(evidence).train;
  return trained;
}

}  // namespace nqd::cli

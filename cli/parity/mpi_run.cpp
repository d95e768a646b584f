#include "cli/parity/mpi_run.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <sstream>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "engine/io/safetensors.h"
#include "reports/evidence.h"

extern char** environ;

namespace nqd::cli {
namespace {

std::string text_of(bool value) { return value ? "true" : "false"; }

// What a cell changes in its config's file.
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
          "train.precision=" + std::string(name(train.precision)),
          "numerics.mode=" + std::string(name(config.numerics.mode)),
          "data.path=" + config.data.path};
}

// In canonical numerics the digest says all there is to know.
bool needs_weights(const engine::ParityCell& cell) {
  return cell.config.numerics.mode == collectives::Numerics::kFast;
}

std::filesystem::path weights_path(const std::filesystem::path& folder) {
  return folder / "weights.safetensors";
}

std::map<std::string, std::vector<float>> read_weights(const std::filesystem::path& path) {
  const engine::SafetensorsFile file(path);
  std::map<std::string, std::vector<float>> weights;
  for (const auto& [name, tensor] : file.tensors()) {
    std::vector<float>& values = weights[name];
    values.resize(static_cast<std::size_t>(tensor.elements()));
    file.read(tensor, 0, 1, values);
  }
  return weights;
}

std::vector<std::string> command_of(const engine::ParityCell& cell, const std::string& config,
                                    const std::vector<std::string>& overrides,
                                    const std::filesystem::path& folder) {
  std::vector<std::string> words = {"mpirun",
                                    "-n",
                                    std::to_string(cell.config.parallel.ranks()),
                                    std::filesystem::read_symlink("/proc/self/exe").string(),
                                    "train",
                                    config,
                                    "--output-dir",
                                    folder.string()};
  if (needs_weights(cell)) {
    words.emplace_back("--save-weights");
    words.push_back(weights_path(folder).string());
  }
  // The cell's own last: it has the last word.
  std::vector<std::string> changes = overrides;
  for (std::string& change : overrides_of(cell.config)) changes.push_back(std::move(change));
  for (std::string& change : changes) {
    words.emplace_back("--set");
    words.push_back(std::move(change));
  }
  return words;
}

// More ranks than cores are what a parity run is about.
std::vector<std::string> environment() {
  std::vector<std::string> variables = {"OMPI_MCA_rmaps_base_oversubscribe=1",
                                        "OMPI_MCA_hwloc_base_binding_policy=none"};
  for (char** entry = environ; *entry != nullptr; ++entry) variables.emplace_back(*entry);
  return variables;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> all;
  for (std::string& word : words) all.push_back(word.data());
  all.push_back(nullptr);
  return all;
}

// Exit status of a command whose output goes to a file.
int spawn(std::vector<std::string> words, const std::filesystem::path& output) {
  std::vector<std::string> variables = environment();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0644);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t child = 0;
  const int failed = ::posix_spawnp(&child, words.front().c_str(), &actions, nullptr,
                                    pointers(words).data(), pointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) {
    throw Error(ExitCode::kEnvironment, "NQD3008",
                words.front() + " could not be started: " + std::strerror(failed),
                "install Open MPI or MPICH, or pass --launcher threads");
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string last_lines(const std::filesystem::path& output) {
  constexpr std::size_t kMost = 400;
  const std::string text = read_file(output);
  return text.size() <= kMost ? text : text.substr(text.size() - kMost);
}

}  // namespace

bool has_mpirun() {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (::access((folder + "/mpirun").c_str(), X_OK) == 0) return true;
  }
  return false;
}

engine::ParityRun run_under_mpi(const engine::ParityCell& cell, const std::string& config,
                                const std::vector<std::string>& overrides,
                                const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  engine::ParityRun run;
  const std::filesystem::path output = folder / "output";
  const int status = spawn(command_of(cell, config, overrides, folder), output);
  // 1: trained, but the audit is not exact, which the evidence says by row; or refused, which it
  // does not.
  const std::filesystem::path evidence = folder / "evidence.json";
  if ((status != 0 && status != 1) || !std::filesystem::exists(evidence)) {
    run.error = "exit code " + std::to_string(status) + ": " + last_lines(output);
    return run;
  }
  const engine::TrainResult result = reports::read_evidence(evidence).train;
  for (const engine::StepRecord& step : result.steps) {
    run.losses.push_back(step.loss);
    run.grad_norms.push_back(step.grad_norm);
  }
  if (!result.evals.empty()) run.heldout_loss = result.evals.back().loss;
  run.weights_sha256 = result.weights_sha256;
  if (needs_weights(cell)) run.weights = read_weights(weights_path(folder));
  for (const engine::AuditRow& row : result.audit) {
    if (row.exact && !row.ok) run.audit_failures.push_back(row.category);
  }
  return run;
}

}  // namespace nqd::cli

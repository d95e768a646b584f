#include "cli/parity/mpi_run.h"

#include <cstdint>
#include <map>
#include <utility>

#include "cli/launch/mpi_train.h"
#include "engine/io/safetensors.h"

namespace nqd::cli {
namespace {

// In canonical numerics the digest says all there is to know.
bool needs_weights(const engine::ParityCell& cell) {
  return cell.config.numerics.mode == collectives::Numerics::kFast;
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

// What a run of these ranks was asked for, and what it said.
engine::ParityRun run_part(const MpiTraining& training) {
  const MpiTrained trained = train_under_mpi(training);
  if (trained.complete) return engine::parity_run_of(trained.result);
  engine::ParityRun run;
  run.error = "exit code " + std::to_string(trained.exit_code) + ": " + trained.said;
  return run;
}

MpiTraining training_of(const planner::Config& config, const std::string& path,
                        const std::vector<std::string>& overrides,
                        const std::filesystem::path& folder) {
  MpiTraining training{path, overrides, config.parallel.ranks(), folder, {}};
  // The cell's own last: it has the last word.
  for (std::string& change : overrides_of(config)) training.overrides.push_back(std::move(change));
  return training;
}

}  // namespace

engine::ParityRun run_under_mpi(const engine::ParityCell& cell, const std::string& config,
                                const std::vector<std::string>& overrides,
                                const std::filesystem::path& folder) {
  const std::string saves = (folder / "saves").string();
  std::vector<std::string> changes = overrides;
  changes.insert(changes.end(), {"checkpoint.every=0", "checkpoint.every_s=0",
                                 "checkpoint.durable_path=", "checkpoint.path=" + saves});
  MpiTraining training = training_of(cell.config, config, changes, folder / "run");
  const std::filesystem::path weights = folder / "weights.safetensors";
  if (needs_weights(cell)) training.flags = {"--save-weights", weights.string()};
  engine::ParityRun first;
  if (cell.saved_by) {
    MpiTraining saving = training_of(*cell.saved_by, config, changes, folder / "first");
    saving.flags = {"--stop-after", std::to_string(cell.saved_after())};
    first = run_part(saving);
    if (!first.error.empty()) return first;
    training.flags.insert(training.flags.end(), {"--resume", saves});
  } else {
    std::filesystem::create_directories(folder);
  }
  engine::ParityRun run = run_part(training);
  if (needs_weights(cell) && run.error.empty()) run.weights = read_weights(weights);
  return engine::joined(std::move(first), std::move(run));
}

}  // namespace nqd::cli

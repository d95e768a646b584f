#include "engine/checkpoint/head.h"

#include <chrono>
#include <ctime>
#include <random>

#include "base/checksum.h"
#include "engine/checkpoint/generations.h"
#include "engine/checkpoint/state.h"

namespace nqd::engine {
namespace {

std::string utc_now() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

std::string mesh_text(const planner::ParallelSpec& mesh) {
  return std::string(planner::name(mesh.engine)) + " dp " + std::to_string(mesh.dp) + " tp " +
         std::to_string(mesh.tp) + " pp " + std::to_string(mesh.pp);
}

}  // namespace

std::string new_run_id() {
  std::random_device device;
  return hex64((std::uint64_t{device()} << 32U) | device()).substr(0, 8);
}

Manifest manifest_head(const SavedRun& run, const planner::Config& config, const RunState& state) {
  Manifest manifest;
  manifest.generation = generation_name(state.step, run.id);
  manifest.written_at = utc_now();
  manifest.mesh = mesh_text(config.parallel);
  manifest.data_digest = run.data_digest;
  manifest.config = run.values;
  manifest.state = state;
  manifest.lineage = run.lineage;
  manifest.quantities = quantities_of(planner::state_shape(config));
  for (const planner::TensorSpec& tensor : planner::parameters(config.model)) {
    manifest.tensors.push_back({tensor.name, tensor.shape});
  }
  return manifest;
}

}  // namespace nqd::engine

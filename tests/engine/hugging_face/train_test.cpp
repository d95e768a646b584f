// Runs that start from an exported checkpoint, on every kind of mesh.
#include <doctest/doctest.h>

#include <string>
#include <utility>

#include "collectives/world.h"
#include "engine/data/training_data.h"
#include "engine/io/hugging_face.h"
#include "engine/parity/data.h"
#include "engine/trainer.h"
#include "planner/config/config.h"
#include "planner/planner.h"
#include "tests/temporary_folder.h"

using namespace nqd;
using planner::Engine;

namespace {

struct Mesh {
  Engine engine = Engine::kDdp;
  std::int64_t dp = 1;
  std::int64_t tp = 1;
  std::int64_t pp = 1;
};

planner::Config on_mesh(planner::Config config, const Mesh& mesh) {
  config.parallel.engine = mesh.engine;
  config.parallel.dp = mesh.dp;
  config.parallel.tp = mesh.tp;
  config.parallel.pp = mesh.pp;
  config.cluster.nodes = 1;
  config.cluster.gpus_per_node = mesh.dp * mesh.tp * mesh.pp;
  return config;
}

// Rank 0's result. `from` may be empty; `to` is where rank 0 exports, or empty.
engine::TrainResult run(const planner::Config& config, const engine::TrainingData& data,
                        const std::filesystem::path& from, const std::filesystem::path& to) {
  engine::TrainResult result;
  const planner::Plan plan = planner::make_plan(config);
  engine::TrainOptions options;
  std::unique_ptr<engine::HuggingFaceWeights> initial;
  std::unique_ptr<engine::HuggingFaceExport> exported;
  if (!from.empty()) {
    initial = std::make_unique<engine::HuggingFaceWeights>(from, config.model);
    options.initial_weights = [&](const planner::TensorSpec& tensor, std::int64_t begin,
                                  std::span<float> out) { initial->fill(tensor, begin, out); };
  }
  if (!to.empty()) {
    exported = std::make_unique<engine::HuggingFaceExport>(to, config.model, DType::kFloat32);
    options.on_weights = [&](const std::string& name, std::span<const float> values) {
      exported->append(name, values);
    };
  }
  collectives::run_threads(static_cast<int>(config.parallel.ranks()), {},
                           [&](collectives::Communicator& world) {
                             engine::TrainResult own;
                             engine::train(world, plan, data, options, own);
                             if (world.rank() == 0) result = std::move(own);
                           });
  if (exported) exported->commit();
  return result;
}

void check_every_mesh(const std::string& name) {
  const testing::TemporaryFolder folder;
  planner::Config config =
      planner::load_config(std::string(NQD_SOURCE_DIR) + "/configs/parity/" + name + ".yaml")
          .config;
  config.train.steps = 2;
  config = engine::with_generated_data(config, folder / "data");
  const engine::TrainingData data = engine::open_training_data(config, true);
  const engine::TrainResult before =
      run(on_mesh(config, {Engine::kZero3, 2, 2, 1}), data, "", folder / "exported");
  const engine::TrainResult reference = run(config, data, folder / "exported", "");
  // The second run begins where the first one ended.
  CHECK(reference.evals.front().loss == before.evals.back().loss);
  CHECK(reference.evals.front().loss < before.evals.front().loss);
  CHECK(reference.weights_sha256 != before.weights_sha256);
  for (const Mesh& mesh : {Mesh{Engine::kDdp, 2, 1, 2}, Mesh{Engine::kZero1, 3, 1, 1},
                           Mesh{Engine::kZero2, 1, 2, 2}, Mesh{Engine::kZero3, 2, 2, 1}}) {
    INFO(name, ": ", planner::name(mesh.engine), ", dp ", mesh.dp, ", tp ", mesh.tp, ", pp ",
         mesh.pp);
    const engine::TrainResult result =
        run(on_mesh(config, mesh), data, folder / "exported", folder / "again");
    CHECK(result.weights_sha256 == reference.weights_sha256);
    REQUIRE(result.steps.size() == 2);
    CHECK(result.steps[0].loss == reference.steps[0].loss);
    CHECK(result.steps[1].loss == reference.steps[1].loss);
  }
  // What was exported is what the digest is of.
  const engine::HuggingFaceWeights again(folder / "again", config.model);
  std::string bytes;
  for (const planner::TensorSpec& tensor : planner::parameters(config.model)) {
    std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
    again.fill(tensor, 0, values);
    bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  }
  CHECK(sha256_hex(bytes) == reference.weights_sha256);
}

}  // namespace

TEST_CASE("runs from an exported GPT-2 have the same bits on every mesh") {
  check_every_mesh("gpt-tied");
}

TEST_CASE("runs from an exported Llama have the same bits on every mesh") {
  check_every_mesh("llama-gqa");
}

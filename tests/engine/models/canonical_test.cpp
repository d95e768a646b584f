// Canonical numerics: losses and gradients are the same to the bit however tensor and sequence
// parallelism, recomputation, threads and the pipeline divide the work.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

#include "tests/engine/models/run_model.h"

using nqd::planner::Config;
using nqd::planner::Recompute;
using nqd::planner::Schedule;
using nqd::tests::Batch;
using nqd::tests::ModelPass;
using nqd::tests::ModelRun;
using nqd::tests::Tensors;

namespace {

void check_equal(const ModelRun& run, const ModelRun& reference) {
  REQUIRE(run.losses.size() == reference.losses.size());
  CHECK(std::memcmp(run.losses.data(), reference.losses.data(), run.losses.size() * 8) == 0);
  CHECK(run.unmasked == reference.unmasked);
  REQUIRE(run.gradients.size() == reference.gradients.size());
  for (const auto& [name, expected] : reference.gradients) {
    INFO(name);
    const std::vector<float>& values = run.gradients.at(name);
    REQUIRE(values.size() == expected.size());
    CHECK(std::memcmp(values.data(), expected.data(), values.size() * 4) == 0);
    CHECK(std::any_of(values.begin(), values.end(), [](float x) { return x != 0; }));
  }
}

struct Mesh {
  std::int64_t tp = 1;
  bool sp = false;
  Recompute recompute = Recompute::kNone;
  std::int64_t every = 1;
  std::int64_t pp = 1;
  Schedule schedule = Schedule::k1F1B;
  std::int64_t vpp = 1;
  std::int64_t threads = 1;
};

Config on_mesh(Config config, const Mesh& mesh) {
  config.parallel.tp = mesh.tp;
  config.parallel.sequence_parallel = mesh.sp;
  config.parallel.pp = mesh.pp;
  config.parallel.vpp = mesh.vpp;
  config.train.threads = mesh.threads;
  config.parallel.schedule = mesh.schedule;
  config.train.recompute = mesh.recompute;
  config.train.recompute_every = mesh.every;
  // Micro-batches enough for every schedule here; one of them runs.
  config.train.global_batch_size = config.train.micro_batch_size * 2 * mesh.pp;
  return config;
}

const std::vector<Mesh> kMeshes = {
    {.tp = 2},
    {.tp = 4},
    {.tp = 8},
    {.threads = 3},
    {.tp = 2, .sp = true, .threads = 2},
    {.tp = 8, .sp = true},
    {.recompute = Recompute::kSelective},
    {.recompute = Recompute::kFull},
    {.recompute = Recompute::kFull, .every = 3},
    {.tp = 4, .sp = true, .recompute = Recompute::kSelective},
    {.tp = 2, .sp = true, .recompute = Recompute::kFull, .every = 2},
    {.pp = 2},
    {.pp = 2, .schedule = Schedule::kInterleaved, .vpp = 2},
    {.tp = 2, .recompute = Recompute::kFull, .every = 2, .pp = 4},
    {.pp = 2, .schedule = Schedule::kZbH1},
    {.tp = 2, .sp = true, .recompute = Recompute::kFull, .pp = 2, .schedule = Schedule::kZbH1},
    {.recompute = Recompute::kSelective, .pp = 4, .schedule = Schedule::kZbH1},
};

void check_meshes(const Config& config, const ModelPass& pass) {
  const Tensors weights = nqd::tests::make_weights(config.model, 11);
  const Batch batch = nqd::tests::make_batch(config, 12);
  const ModelRun reference = nqd::tests::run_model(on_mesh(config, {}), weights, batch, pass);
  for (const Mesh& mesh : kMeshes) {
    INFO("tp ", mesh.tp, ", sp ", mesh.sp, ", recompute ", name(mesh.recompute), " every ",
         mesh.every, ", pp ", mesh.pp, ", ", name(mesh.schedule), ", threads ", mesh.threads);
    check_equal(nqd::tests::run_model(on_mesh(config, mesh), weights, batch, pass), reference);
  }
}

}  // namespace

TEST_CASE("a tied GPT with an odd vocabulary has the same bits on every mesh") {
  check_meshes(nqd::tests::small_gpt(), {});
}

TEST_CASE("dropout draws the same masks on every mesh and when it is computed again") {
  const Config config = nqd::tests::small_gpt();
  const ModelPass dropping{.options = {.dropout = 0.1}};
  check_meshes(config, dropping);

  const Tensors weights = nqd::tests::make_weights(config.model, 11);
  const Batch batch = nqd::tests::make_batch(config, 12);
  const double dropped = nqd::tests::run_model(config, weights, batch, dropping).loss();
  CHECK(dropped != nqd::tests::run_model(config, weights, batch).loss());
  ModelPass elsewhere = dropping;
  elsewhere.first_sequence = 7;
  CHECK(dropped != nqd::tests::run_model(config, weights, batch, elsewhere).loss());
}

TEST_CASE("a Llama with grouped queries and an untied head has the same bits on every mesh") {
  check_meshes(nqd::tests::small_llama(), {});
}

TEST_CASE("an encoder that classifies time series has the same bits on every mesh") {
  check_meshes(nqd::tests::small_encoder(), {.options = {.dropout = 0.1}});
}

TEST_CASE("messages between tp ranks give the bits that shared memory gives") {
  const Config config = nqd::tests::small_gpt();
  const Tensors weights = nqd::tests::make_weights(config.model, 11);
  const Batch batch = nqd::tests::make_batch(config, 12);
  const ModelRun reference = nqd::tests::run_model(config, weights, batch);
  for (const Mesh& mesh : {Mesh{.tp = 4}, Mesh{.tp = 4, .sp = true}}) {
    check_equal(nqd::tests::run_model(on_mesh(config, mesh), weights, batch, {.direct = false}),
                reference);
  }
}

TEST_CASE("seven heads, slices that are no power of two and one short slice of the vocabulary") {
  // Nothing is divided by tp here, so nothing need be divisible.
  Config config = nqd::tests::small_gpt();
  config.model.hidden = 35;
  config.model.heads = config.model.kv_heads = 7;
  config.model.head_dim = 5;
  config.model.ffn_hidden = 50;
  config.model.vocab = 11;
  config.numerics.tp_slices = 6;
  const Tensors weights = nqd::tests::make_weights(config.model, 11);
  const Batch batch = nqd::tests::make_batch(config, 12);
  const ModelRun reference = nqd::tests::run_model(config, weights, batch);
  config.train.recompute = Recompute::kFull;
  config.train.threads = 2;
  check_equal(nqd::tests::run_model(config, weights, batch), reference);
  config.numerics.mode = nqd::collectives::Numerics::kFast;
  const ModelRun fast = nqd::tests::run_model(config, weights, batch);
  CHECK(nqd::tests::relative_distance(fast.gradients, reference.gradients) < 5e-6);
}

TEST_CASE("bfloat16 storage of a llama has the same bits on every mesh") {
  Config config = nqd::tests::small_llama();
  config.train.precision = nqd::planner::Precision::kBFloat16;
  check_meshes(config, {});
}

TEST_CASE("float16 storage of a gpt has the same bits on every mesh") {
  Config config = nqd::tests::small_gpt();
  config.train.precision = nqd::planner::Precision::kFloat16;
  check_meshes(config, {.loss_scale = 64});
}

TEST_CASE("bfloat16 storage of an encoder has the same bits on every mesh") {
  Config config = nqd::tests::small_encoder();
  config.train.precision = nqd::planner::Precision::kBFloat16;
  check_meshes(config, {});
}

TEST_CASE("another number of slices gives other bits") {
  Config config = nqd::tests::small_gpt();
  const Tensors weights = nqd::tests::make_weights(config.model, 11);
  const Batch batch = nqd::tests::make_batch(config, 12);
  const ModelRun eight = nqd::tests::run_model(config, weights, batch);
  config.numerics.tp_slices = 2;
  const ModelRun two = nqd::tests::run_model(config, weights, batch);
  CHECK(two.losses != eight.losses);
  CHECK(nqd::tests::relative_distance(two.gradients, eight.gradients) < 5e-6);
}

TEST_CASE("a power of two of the loss scale is in every gradient, exactly") {
  const Config config = nqd::tests::small_gpt();
  const Tensors weights = nqd::tests::make_weights(config.model, 11);
  const Batch batch = nqd::tests::make_batch(config, 12);
  const ModelRun plain = nqd::tests::run_model(config, weights, batch);
  const ModelRun scaled = nqd::tests::run_model(config, weights, batch, {.loss_scale = 256});
  for (const auto& [name, values] : plain.gradients) {
    INFO(name);
    const std::vector<float>& larger = scaled.gradients.at(name);
    for (std::size_t i = 0; i < values.size(); ++i) REQUIRE(larger[i] == 256 * values[i]);
  }
}

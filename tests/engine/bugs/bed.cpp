#include "tests/engine/bugs/bed.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>

#include "collectives/world.h"
#include "engine/data/token_format.h"
#include "engine/data/training_data.h"
#include "engine/parallel/mesh_groups.h"
#include "engine/philox.h"
#include "engine/train/rank_state.h"
#include "planner/layout/layout.h"
#include "planner/layout/state_shape.h"
#include "planner/planner.h"
#include "planner/reference/reference_plan.h"
#include "tests/temporary_folder.h"

namespace nqd::bugs {
namespace {

using collectives::Communicator;
using planner::Config;

constexpr std::uint32_t kSeed = 7;

// Element i of stream `stream`, in [0, below).
std::int32_t random_token(std::uint32_t stream, std::int64_t i, std::int64_t below) {
  const engine::PhiloxCounter bits =
      engine::philox4x32_10({static_cast<std::uint32_t>(i), stream, 0, 0}, {kSeed, 0});
  // Squared: small tokens are frequent, so that there is something to learn.
  const double uniform = bits[0] / 4294967296.0;
  return static_cast<std::int32_t>(uniform * uniform * static_cast<double>(below));
}

std::unique_ptr<engine::TokenSamples> write_tokens(const std::filesystem::path& path,
                                                   const Config& config, std::uint32_t stream,
                                                   std::int64_t samples) {
  const std::int64_t vocab = config.model.vocab;
  engine::TokenFileWriter writer(path, vocab);
  std::string payload;
  for (std::int64_t i = 0; i < samples * config.model.sequence + 1; ++i) {
    const std::int32_t token = random_token(stream, i, vocab);
    payload += static_cast<char>(token & 0xff);
    if (vocab > 256) payload += static_cast<char>(token >> 8);
  }
  writer.append(payload);
  writer.finish();
  writer.commit();
  return std::make_unique<engine::TokenSamples>(engine::TokenFile(path), config.model.sequence);
}

// Writes what a rank updates into whole tensors; a value that is there already must be the same.
void collect(engine::UnitStore& store, Tensors& whole, std::vector<std::string>& unlike) {
  store.for_each_shard([&](const engine::ShardRun& run) {
    std::vector<float>& to = whole.at(run.tensor->full.name);
    const auto count = static_cast<std::int64_t>(run.gradient.size());
    engine::for_each_piece(
        *run.tensor, run.local, count, [&](std::int64_t full, std::int64_t local, std::int64_t n) {
          for (std::int64_t i = 0; i < n; ++i) {
            float& value = to[static_cast<std::size_t>(full + i)];
            const float found = run.gradient[static_cast<std::size_t>(local - run.local + i)];
            if (!std::isnan(value) && value != found) {
              unlike.push_back(run.tensor->full.name);
            }
            value = found;
          }
        });
  });
}

void set_weights(engine::UnitStore& store, const Tensors& weights) {
  store.for_each_shard([&](const engine::ShardRun& run) {
    const auto given = weights.find(run.tensor->full.name);
    if (given == weights.end()) return;
    const auto count = static_cast<std::int64_t>(run.weights.size());
    engine::for_each_piece(
        *run.tensor, run.local, count, [&](std::int64_t full, std::int64_t local, std::int64_t n) {
          std::copy_n(given->second.begin() + full, n, run.weights.begin() + (local - run.local));
        });
  });
  store.publish();
}

// The step of one rank, its gradients summed.
engine::StepTotals step_of_rank(engine::RankState& state, const engine::MeshGroups& groups,
                                const Config& config, const std::vector<Sequence>& batch,
                                std::int64_t step) {
  const planner::StateShape& shape = state.store().shape();
  const std::int64_t rows = config.train.micro_batch_size;
  std::vector<std::int32_t> tokens, targets;
  state.store().begin_step();
  state.runner().train(step, 1.0F, [&](std::int64_t micro_batch) {
    const std::int64_t first =
        rows * planner::leaf_index(shape.gradient_shards(), shape.micro_batches, groups.place.dp,
                                   micro_batch);
    tokens.clear();
    targets.clear();
    for (std::int64_t row = first; row < first + rows; ++row) {
      const Sequence& one = batch[static_cast<std::size_t>(row)];
      tokens.insert(tokens.end(), one.tokens.begin(), one.tokens.end());
      targets.insert(targets.end(), one.targets.begin(), one.targets.end());
    }
    return engine::Batch{std::as_bytes(std::span(tokens)), targets, first};
  });
  state.store().finish_step();
  const engine::LossSum loss = state.runner().loss();
  engine::RankTotals mine;
  if (groups.place.tp == 0) {
    mine.loss = loss.loss;
    mine.targets = loss.targets;
  }
  mine.squared_gradients = state.store().squared_gradients();
  return engine::add_up(*groups.control, mine);
}

std::string joined(const std::vector<std::string>& all) {
  std::string text;
  for (const std::string& one : all) text += (text.empty() ? "" : "; ") + one;
  return text;
}

// l of the rule: 0 the embeddings, 1 … L the layers, L + 1 the head.
std::int64_t depth_of(const std::string& name, std::int64_t layers) {
  if (name.starts_with("embedding.")) return 0;
  if (!name.starts_with("layers.")) return layers + 1;
  return std::stoll(name.substr(std::string("layers.").size())) + 1;
}

}  // namespace

Config tiny_gpt() {
  Config c;
  c.source = "test";
  c.model.family = "gpt";
  c.model.layers = 4;
  c.model.hidden = 24;
  c.model.heads = c.model.kv_heads = 12;
  c.model.head_dim = 2;
  c.model.ffn_hidden = 48;
  c.model.vocab = 64;
  c.model.sequence = 8;
  c.cluster.preset = "cpu-host";
  c.train.precision = c.train.gradient_precision = planner::Precision::kFloat32;
  c.train.micro_batch_size = 1;
  c.train.global_batch_size = 12;
  c.train.steps = 3;
  c.train.eval_batches = 4;
  c.train.bucket_bytes = 10'000;
  c.train.optimizer.warmup_steps = 1;
  c.train.optimizer.learning_rate = 3e-3;
  return c;
}

Config tiny_llama() {
  Config c = tiny_gpt();
  c.model.family = "llama";
  c.model.kv_heads = 4;
  c.model.head_dim = 4;
  c.model.hidden = 48;
  c.model.tied_head = false;
  c.model.gated_mlp = true;
  c.model.bias = c.model.qkv_bias = false;
  c.model.norm = planner::Norm::kRmsNorm;
  c.model.positions = planner::Positions::kRotary;
  return c;
}

Config on(Config config, const Mesh& mesh) {
  planner::ParallelSpec& parallel = config.parallel;
  parallel.engine = mesh.engine;
  parallel.dp = mesh.dp;
  parallel.tp = mesh.tp;
  parallel.pp = mesh.pp;
  parallel.vpp = mesh.vpp;
  parallel.schedule = mesh.schedule;
  parallel.sequence_parallel = mesh.sequence_parallel;
  parallel.hsdp_shard = mesh.hsdp_shard;
  parallel.world_size = parallel.ranks();
  config.cluster.gpus_per_node = parallel.ranks();
  return config;
}

std::string words(const Config& config) {
  const planner::ParallelSpec& p = config.parallel;
  return std::string(name(p.engine)) + " dp " + std::to_string(p.dp) + " tp " +
         std::to_string(p.tp) + (p.sequence_parallel ? "+sp" : "") + " pp " + std::to_string(p.pp) +
         " " + std::string(name(p.schedule)) + "/" + std::to_string(p.vpp) + ", " +
         std::to_string(config.train.global_batch_size) + " sequences by " +
         std::to_string(config.train.micro_batch_size) + ", " +
         std::string(name(config.train.precision)) + ", " +
         std::string(name(config.train.recompute));
}

std::string violations(const Config& config) {
  std::vector<std::string> found;
  for (const Diagnostic& diagnostic : planner::check_mesh(config)) {
    if (diagnostic.severity == Severity::kError) {
      found.push_back(diagnostic.code + ": " + diagnostic.message);
    }
  }
  return joined(found);
}

engine::TrainingData make_data(const std::filesystem::path& folder, const Config& config,
                               std::int64_t train_samples) {
  const planner::TrainSpec& train = config.train;
  const std::int64_t samples =
      train_samples > 0 ? train_samples : train.steps * train.global_batch_size;
  const std::int64_t heldout = train.eval_batches * train.micro_batch_size;
  return {write_tokens(folder / "train.tokens", config, 0, samples),
          write_tokens(folder / "heldout.tokens", config, 1, heldout),
          engine::Sampler(static_cast<std::uint64_t>(samples), kSeed), ""};
}

engine::ParityRun run(const Config& config, std::int64_t train_samples) {
  INFO(words(config));
  REQUIRE(violations(config) == "");
  REQUIRE_FALSE(planner::engine_refusal(config));
  const testing::TemporaryFolder folder;
  return engine::run_on_threads(config, make_data(folder.path(), config, train_samples));
}

void check_same(const engine::ParityRun& found, const engine::ParityRun& reference) {
  CHECK(reference.error == "");
  CHECK(found.error == "");
  CHECK(joined(found.audit_failures) == "");
  CHECK(found.losses == reference.losses);
  CHECK(found.grad_norms == reference.grad_norms);
  CHECK(found.heldout_loss == reference.heldout_loss);
  CHECK(found.weights_sha256 == reference.weights_sha256);
}

void check_meshes(const Config& config, const std::vector<Mesh>& meshes) {
  const engine::ParityRun reference = run(on(config, {}));
  REQUIRE(reference.losses.size() == static_cast<std::size_t>(config.train.steps));
  for (const Mesh& mesh : meshes) {
    const Config here = on(config, mesh);
    INFO(words(here));
    check_same(run(here), reference);
  }
}

std::vector<Sequence> ragged(const Config& config, const std::vector<std::int64_t>& valid) {
  std::vector<Sequence> batch;
  for (std::size_t i = 0; i < valid.size(); ++i) {
    Sequence one;
    const auto stream = static_cast<std::uint32_t>(100 + i);
    for (std::int64_t k = 0; k < config.model.sequence; ++k) {
      one.tokens.push_back(random_token(stream, k, config.model.vocab));
      const std::int32_t target = random_token(stream, 1000 + k, config.model.vocab);
      one.targets.push_back(k < valid[i] ? target : engine::kMaskedTarget);
    }
    batch.push_back(std::move(one));
  }
  return batch;
}

Step one_step(const Config& config, const std::vector<Sequence>& batch, std::int64_t step,
              const Tensors& weights) {
  INFO(words(config));
  REQUIRE(violations(config) == "");
  REQUIRE(static_cast<std::int64_t>(batch.size()) == config.train.global_batch_size);
  Step found;
  for (const planner::TensorSpec& tensor : planner::parameters(config.model)) {
    found.gradients[tensor.name].assign(static_cast<std::size_t>(tensor.elements()),
                                        std::numeric_limits<float>::quiet_NaN());
  }
  std::mutex mutex;
  std::vector<std::string> unlike;
  collectives::run_threads(static_cast<int>(config.parallel.ranks()), {}, [&](Communicator& world) {
    MemoryLedger ledger;
    engine::MeshGroups groups = engine::join_mesh(world, config, ledger);
    engine::RankState state(config, groups, ledger, engine::Mutant::kNone, {});
    if (!weights.empty()) set_weights(state.store(), weights);
    const engine::StepTotals totals = step_of_rank(state, groups, config, batch, step);
    const std::lock_guard lock(mutex);
    found.totals = totals;
    collect(state.store(), found.gradients, unlike);
  });
  CHECK(joined(unlike) == "");
  for (const auto& [name, values] : found.gradients) {
    INFO(name);
    CHECK(std::none_of(values.begin(), values.end(), [](float x) { return std::isnan(x); }));
  }
  return found;
}

void check_same(const Step& found, const Step& reference) {
  CHECK(found.totals.targets == reference.totals.targets);
  CHECK(found.totals.loss_sum == reference.totals.loss_sum);
  CHECK(found.totals.squared_gradients == reference.totals.squared_gradients);
  for (const auto& [name, values] : reference.gradients) {
    INFO(name);
    CHECK(found.gradients.at(name) == values);
  }
}

void check_close(const Config& config, const Tensors& found, const Tensors& reference,
                 double epsilon) {
  const std::int64_t layers = config.model.layers;
  for (const auto& [name, expected] : reference) {
    const std::vector<float>& values = found.at(name);
    double difference = 0, norm = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      difference += std::pow(static_cast<double>(values[i]) - expected[i], 2);
      norm += std::pow(static_cast<double>(expected[i]), 2);
    }
    const auto above = static_cast<double>(layers + 1 - depth_of(name, layers));
    CAPTURE(name);
    CHECK(std::sqrt(difference) <= 4 * std::pow(1.03, above) * epsilon * std::sqrt(norm));
  }
}

}  // namespace nqd::bugs

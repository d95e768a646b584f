#include "tests/engine/models/run_model.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <mutex>
#include <random>
#include <span>

#include "collectives/element.h"
#include "collectives/world.h"
#include "engine/device/cpu_device.h"
#include "engine/models/transformer/transformer_chunk.h"
#include "engine/philox.h"
#include "planner/layout/layout.h"
#include "planner/mesh/stages.h"
#include "planner/plan/pipeline.h"

namespace nqd::tests {
namespace {

using engine::ActivationArena;
using engine::Pass;
using engine::TransformerChunk;
using planner::LocalTensor;
using planner::LocalUnit;
using planner::UnitRole;

struct UnitState {
  std::vector<std::byte> weights;
  std::vector<float> gradients;
};

DType storage_type(const planner::Config& config) {
  switch (config.train.precision) {
    case planner::Precision::kBFloat16:
      return DType::kBFloat16;
    case planner::Precision::kFloat16:
      return DType::kFloat16;
    default:
      return DType::kFloat32;
  }
}

UnitState make_state(const LocalUnit& unit, const Tensors& weights, DType type) {
  const std::size_t bytes = size_bytes(type);
  UnitState state;
  state.gradients.assign(static_cast<std::size_t>(unit.elements), 0.0F);
  state.weights.resize(static_cast<std::size_t>(unit.elements) * bytes);
  for (const LocalTensor& tensor : unit.tensors) {
    const std::vector<float>& full = weights.at(tensor.full.name);
    for (const planner::Piece& piece : tensor.pieces) {
      for (std::int64_t i = 0; i < piece.count; ++i) {
        const auto to = static_cast<std::size_t>(tensor.offset + piece.local + i);
        collectives::store_element(state.weights.data() + to * bytes, type,
                                   full[static_cast<std::size_t>(piece.full + i)]);
      }
    }
  }
  return state;
}

// One tp rank: all chunks of all stages.
class RankModel {
 public:
  RankModel(const planner::Config& config, const Tensors& weights, const engine::TensorParallel& tp,
            const ModelPass& pass)
      : device_(static_cast<int>(config.train.threads)) {
    const DType type = storage_type(config);
    for (std::int64_t stage = 0; stage < config.parallel.pp; ++stage) {
      ledgers_.push_back(std::make_unique<MemoryLedger>());
      const auto list = planner::activation_buffers(config, stage);
      for (const auto& buffer : list) listed_ += static_cast<std::uint64_t>(buffer.bytes);
      arenas_.push_back(std::make_unique<ActivationArena>(list, ledgers_.back().get(), device_));
    }
    std::int64_t chunk = 0;
    for (const planner::ChunkLayers& layers : planner::chunk_layers(config)) {
      chunks_.emplace_back(config, pass.options, chunk++, tp,
                           *arenas_[static_cast<std::size_t>(layers.stage)], device_);
      states_.emplace_back();
      for (const LocalUnit& unit : chunks_.back().units()) {
        states_.back().push_back(make_state(unit, weights, type));
      }
    }
    split_ = planner::splits_backward(config.parallel.schedule);
    pass_.first_sequence = pass.first_sequence;
    pass_.loss_scale = pass.loss_scale;
    pass_.training = pass.training;
    pass_.step = kStep;
  }

  void forward(const Batch& batch) {
    const auto tokens = std::as_bytes(std::span(batch.tokens));
    chunks_.front().load_inputs(0,
                                tokens.empty() ? std::as_bytes(std::span(batch.features)) : tokens);
    chunks_.back().load_targets(0, batch.targets);
    for (std::size_t chunk = 0; chunk < chunks_.size(); ++chunk) {
      if (chunk > 0) copy(chunks_[chunk].input(0), chunks_[chunk - 1].output(0));
      for (int unit = 0; unit < unit_count(chunk); ++unit) {
        chunks_[chunk].forward(unit, weights_of(chunk, unit), pass_);
      }
    }
  }

  void backward() {
    for (std::size_t chunk = chunks_.size(); chunk-- > 0;) {
      if (chunk + 1 < chunks_.size()) {
        copy(chunks_[chunk].gradient(0), chunks_[chunk + 1].gradient(0));
      }
      for (int unit = unit_count(chunk); unit-- > 0;) {
        const engine::UnitRange again = chunks_[chunk].recompute_before(unit);
        for (int u = again.begin; u < again.end; ++u) {
          chunks_[chunk].recompute(u, weights_of(chunk, u), pass_);
        }
        chunks_[chunk].backward_input(unit, weights_of(chunk, unit), pass_);
        if (!split_) backward_weight(chunk, unit);
      }
    }
    for (std::size_t chunk = chunks_.size(); split_ && chunk-- > 0;) {
      for (int unit = unit_count(chunk); unit-- > 0;) backward_weight(chunk, unit);
    }
  }

  // Writes this rank's parts into `run`, whose tensors are filled with NaN.
  void give(ModelRun& run, int rank) const {
    for (std::size_t chunk = 0; chunk < chunks_.size(); ++chunk) {
      for (int unit = 0; unit < unit_count(chunk); ++unit) give_unit(run, rank, chunk, unit);
    }
    const auto losses = chunks_.back().row_losses();
    if (rank == 0) run.losses.assign(losses.begin(), losses.end());
    CHECK(std::equal(losses.begin(), losses.end(), run.losses.begin(), run.losses.end()));
    run.unmasked = chunks_.back().unmasked_targets(0);
    run.listed_bytes = listed_;
    run.peak_bytes = 0;
    for (const auto& ledger : ledgers_) run.peak_bytes += ledger->peak_total_bytes();
  }

 private:
  static void copy(std::span<std::byte> to, std::span<const std::byte> from) {
    REQUIRE(to.size() == from.size());
    std::copy(from.begin(), from.end(), to.begin());
  }
  int unit_count(std::size_t chunk) const {
    return static_cast<int>(chunks_[chunk].units().size());
  }
  const LocalUnit& unit_at(std::size_t chunk, int unit) const {
    return chunks_[chunk].units()[static_cast<std::size_t>(unit)];
  }
  UnitState& state(std::size_t chunk, int unit) {
    return states_[chunk][static_cast<std::size_t>(unit)];
  }
  engine::UnitWeights weights_of(std::size_t chunk, int unit) {
    const std::byte* const table = states_.front().front().weights.data();
    if (!unit_at(chunk, unit).holds_weights) return {table, nullptr};
    return {state(chunk, unit).weights.data(), table};
  }
  void backward_weight(std::size_t chunk, int unit) {
    chunks_[chunk].backward_weight(
        unit, {state(chunk, unit).gradients.data(), states_.front().front().gradients.data()},
        pass_);
  }

  void give_unit(ModelRun& run, int rank, std::size_t chunk, int unit) const {
    const LocalUnit& local = unit_at(chunk, unit);
    const std::vector<float>& from = states_[chunk][static_cast<std::size_t>(unit)].gradients;
    for (const LocalTensor& tensor : local.tensors) {
      std::vector<float>& to =
          run.gradients[local.role == UnitRole::kTied ? "tied" : tensor.full.name];
      if (to.empty()) to.assign(static_cast<std::size_t>(tensor.full.elements()), 0.0F);
      for (const planner::Piece& piece : tensor.pieces) {
        const auto source = from.begin() + tensor.offset + piece.local;
        const auto target = to.begin() + piece.full;
        if (tensor.replicated && rank > 0) {
          INFO(tensor.full.name, " of rank ", rank);
          CHECK(std::memcmp(&*target, &*source, static_cast<std::size_t>(piece.count) * 4) == 0);
        } else {
          std::copy_n(source, piece.count, target);
        }
      }
    }
  }

  engine::CpuDevice device_;
  std::vector<std::unique_ptr<MemoryLedger>> ledgers_;
  std::vector<std::unique_ptr<ActivationArena>> arenas_;
  std::vector<TransformerChunk> chunks_;
  std::vector<std::vector<UnitState>> states_;
  std::uint64_t listed_ = 0;
  bool split_ = false;
  Pass pass_;
};

}  // namespace

double ModelRun::loss() const {
  double sum = 0;
  for (const double loss : losses) sum += loss;
  return sum;
}

namespace {

Batch make_samples(const planner::Config& config, std::uint64_t seed) {
  const planner::ModelSpec& model = config.model;
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  Batch batch;
  const std::int64_t samples = config.train.micro_batch_size;
  for (std::int64_t i = 0; i < samples * model.sequence * model.input_features; ++i) {
    batch.features.push_back(normal(random));
  }
  const auto classes = static_cast<std::uint64_t>(model.output_features);
  for (std::int64_t i = 0; i < samples; ++i) {
    batch.targets.push_back(static_cast<std::int32_t>(random() % classes));
  }
  batch.targets[0] = static_cast<std::int32_t>(classes - 1);
  batch.targets[1] = -1;
  return batch;
}

}  // namespace

Batch make_batch(const planner::Config& config, std::uint64_t seed) {
  if (config.model.input_features > 0) return make_samples(config, seed);
  std::mt19937_64 random(seed);
  const auto vocabulary = static_cast<std::uint64_t>(config.model.vocab);
  Batch batch;
  for (std::int64_t i = 0; i < config.train.micro_batch_size * config.model.sequence; ++i) {
    batch.tokens.push_back(static_cast<std::int32_t>(random() % vocabulary));
    batch.targets.push_back(random() % 7 == 0 ? -1
                                              : static_cast<std::int32_t>(random() % vocabulary));
  }
  // Both ends of the vocabulary occur.
  batch.tokens[0] = static_cast<std::int32_t>(vocabulary - 1);
  batch.targets[1] = static_cast<std::int32_t>(vocabulary - 1);
  batch.targets[2] = 0;
  return batch;
}

Tensors make_weights(const planner::ModelSpec& model, std::uint64_t seed, double sigma) {
  Tensors weights;
  for (const planner::TensorSpec& tensor : planner::parameters(model)) {
    std::vector<float>& values = weights[tensor.name];
    const std::uint64_t stream = engine::stream_of(tensor.name);
    const bool norm = tensor.shape.size() == 1 && tensor.name.ends_with(".weight");
    for (std::int64_t i = 0; i < tensor.elements(); ++i) {
      const float normal = engine::normal_block(seed, stream, static_cast<std::uint64_t>(i))[0];
      values.push_back((norm ? 1.0F : 0.0F) + static_cast<float>(sigma) * normal);
    }
  }
  return weights;
}

planner::Config small_gpt() {
  planner::Config c;
  c.model.family = "gpt";
  c.model.layers = 4;
  c.model.hidden = 32;
  c.model.heads = c.model.kv_heads = 8;
  c.model.head_dim = 4;
  c.model.ffn_hidden = 48;
  c.model.vocab = 257;
  c.model.sequence = 20;
  c.train.micro_batch_size = c.train.global_batch_size = 2;
  c.train.precision = planner::Precision::kFloat32;
  c.train.gradient_precision = planner::Precision::kFloat32;
  return c;
}

planner::Config small_llama() {
  planner::Config c = small_gpt();
  c.model.family = "llama";
  c.model.hidden = 64;
  c.model.heads = 16;
  c.model.kv_heads = 8;
  c.model.vocab = 250;
  c.model.tied_head = false;
  c.model.gated_mlp = true;
  c.model.bias = c.model.qkv_bias = false;
  c.model.norm = planner::Norm::kRmsNorm;
  c.model.positions = planner::Positions::kRotary;
  return c;
}

planner::Config small_encoder() {
  planner::Config c = small_gpt();
  c.model.family = "timeseries";
  c.model.vocab = 0;
  c.model.input_features = 5;
  c.model.output_features = 11;
  c.model.tied_head = false;
  c.model.causal = false;
  c.train.micro_batch_size = c.train.global_batch_size = 8;
  return c;
}

ModelRun run_model(const planner::Config& config, const Tensors& weights, const Batch& batch,
                   const ModelPass& pass) {
  ModelRun run;
  std::mutex mutex;
  // Rank 0 gives first: the others are compared with it.
  std::vector<std::unique_ptr<RankModel>> ranks(static_cast<std::size_t>(config.parallel.tp));
  collectives::run_threads(static_cast<int>(config.parallel.tp), {},
                           [&](collectives::Communicator& group) {
                             engine::TensorParallel tp;
                             tp.group = group.size() > 1 ? &group : nullptr;
                             tp.rank = group.rank();
                             tp.size = group.size();
                             tp.sequence_parallel = config.parallel.sequence_parallel;
                             tp.direct = pass.direct;
                             auto model = std::make_unique<RankModel>(config, weights, tp, pass);
                             for (int i = 0; i < pass.micro_batches; ++i) {
                               model->forward(batch);
                               if (pass.training) model->backward();
                             }
                             const std::lock_guard lock(mutex);
                             if (group.rank() == 0) run.traffic = group.traffic();
                             ranks[static_cast<std::size_t>(group.rank())] = std::move(model);
                           });
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    ranks[rank]->give(run, static_cast<int>(rank));
  }
  const auto tied = run.gradients.find("tied");
  if (tied != run.gradients.end()) {
    std::vector<float>& token = run.gradients.at("embedding.token");
    for (std::size_t i = 0; i < token.size(); ++i) token[i] += tied->second[i];
    run.gradients.erase(tied);
  }
  return run;
}

double relative_distance(const Tensors& a, const Tensors& b) {
  double difference = 0;
  double norm = 0;
  for (const auto& [name, values] : b) {
    const std::vector<float>& other = a.at(name);
    REQUIRE(other.size() == values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      difference += std::pow(static_cast<double>(other[i]) - values[i], 2);
      norm += std::pow(static_cast<double>(values[i]), 2);
    }
  }
  return std::sqrt(difference / norm);
}

}  // namespace nqd::tests

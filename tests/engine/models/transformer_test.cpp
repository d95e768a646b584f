// The units of a transformer against other implementations, against differences of the loss, and
// what they send and hold.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "engine/cpu/blocked_attention.h"
#include "engine/models/transformer/transformer_chunk.h"
#include "planner/layout/layout.h"
#include "tests/engine/models/run_model.h"
#include "tests/fixtures/encoder_fixture.h"
#include "tests/fixtures/gpt_fixture.h"

using nqd::collectives::Collective;
using nqd::planner::Config;
using nqd::planner::Recompute;
using nqd::tests::Batch;
using nqd::tests::ModelRun;
using nqd::tests::Tensors;

namespace {

Config fast(Config config) {
  config.numerics.mode = nqd::collectives::Numerics::kFast;
  return config;
}

Config with_tp(Config config, std::int64_t tp, bool sp) {
  config.parallel.tp = tp;
  config.parallel.sequence_parallel = sp;
  return config;
}

std::vector<Config> all_models() {
  return {nqd::tests::small_gpt(), nqd::tests::small_llama(), nqd::tests::small_encoder()};
}

// Flat values in parameters() order.
Tensors unflatten(const nqd::planner::ModelSpec& model, std::span<const float> flat) {
  Tensors tensors;
  for (const auto& tensor : nqd::planner::parameters(model)) {
    const auto count = static_cast<std::size_t>(tensor.elements());
    tensors[tensor.name].assign(flat.begin(), flat.begin() + static_cast<std::ptrdiff_t>(count));
    flat = flat.subspan(count);
  }
  return tensors;
}

}  // namespace

TEST_CASE("fast numerics stay within rounding of canonical ones on every mesh") {
  for (const Config& config : all_models()) {
    const Tensors weights = nqd::tests::make_weights(config.model, 21);
    const Batch batch = nqd::tests::make_batch(config, 22);
    const nqd::tests::ModelPass pass{.options = {.dropout = 0.1}};
    const ModelRun canonical = nqd::tests::run_model(config, weights, batch, pass);
    for (const std::int64_t tp : {1, 2, 8}) {
      for (const bool sp : {false, true}) {
        INFO(config.model.family, ", tp ", tp, ", sp ", sp);
        const ModelRun run =
            nqd::tests::run_model(with_tp(fast(config), tp, sp), weights, batch, pass);
        CHECK(run.loss() == doctest::Approx(canonical.loss()).epsilon(1e-6));
        CHECK(nqd::tests::relative_distance(run.gradients, canonical.gradients) < 5e-6);
      }
    }
  }
}

TEST_CASE("16-bit storage stays within its rounding of float32") {
  for (Config config : all_models()) {
    const Tensors weights = nqd::tests::make_weights(config.model, 21, 0.1);
    const Batch batch = nqd::tests::make_batch(config, 22);
    const ModelRun reference = nqd::tests::run_model(config, weights, batch);
    for (const auto& [precision, tolerance] :
         {std::pair{nqd::planner::Precision::kBFloat16, 0.02},
          std::pair{nqd::planner::Precision::kFloat16, 0.0025}}) {
      config.train.precision = precision;
      for (const Config& one : {config, fast(config)}) {
        const ModelRun run = nqd::tests::run_model(one, weights, batch);
        CHECK(run.loss() == doctest::Approx(reference.loss()).epsilon(tolerance / 10));
        const double distance = nqd::tests::relative_distance(run.gradients, reference.gradients);
        CHECK(distance < tolerance);
        CHECK(distance > tolerance / 100);
      }
    }
  }
}

TEST_CASE("losses and gradients agree with PyTorch") {
  const auto fixture = nqd::fixtures::read_gpt_fixture(NQD_SOURCE_DIR);
  Config config;
  config.model = fixture.model;
  config.train.micro_batch_size = config.train.global_batch_size = fixture.batch;
  config.train.precision = nqd::planner::Precision::kFloat32;
  config.numerics.tp_slices = 2;
  const Tensors weights = unflatten(config.model, fixture.weights);
  const Batch batch{fixture.tokens, fixture.targets};
  Tensors reference = unflatten(config.model, fixture.gradients);
  for (auto& [name, values] : reference) {
    for (float& value : values) value *= static_cast<float>(fixture.unmasked_targets());
  }
  for (const Config& one : {config, fast(config), with_tp(config, 2, false)}) {
    const ModelRun run = nqd::tests::run_model(one, weights, batch);
    CHECK(run.unmasked == fixture.unmasked_targets());
    CHECK(run.loss() == doctest::Approx(fixture.loss_sum).epsilon(1e-6));
    for (const auto& [name, values] : reference) {
      INFO(name);
      CHECK(nqd::tests::relative_distance({{name, run.gradients.at(name)}}, {{name, values}}) <
            1e-5);
    }
  }
}

TEST_CASE("an encoder's losses and gradients agree with PyTorch") {
  const auto fixture = nqd::fixtures::read_encoder_fixture(NQD_SOURCE_DIR);
  Config config;
  config.model = fixture.model;
  config.train.micro_batch_size = config.train.global_batch_size = fixture.batch;
  config.train.precision = nqd::planner::Precision::kFloat32;
  config.numerics.tp_slices = 2;
  const Tensors weights = unflatten(config.model, fixture.weights);
  const Batch batch{{}, fixture.targets, fixture.features};
  const Tensors reference = unflatten(config.model, fixture.gradients);
  for (const Config& one : {config, fast(config), with_tp(config, 2, false)}) {
    const ModelRun run = nqd::tests::run_model(one, weights, batch);
    CHECK(run.unmasked == 2);
    CHECK(run.loss() == doctest::Approx(fixture.loss_sum).epsilon(1e-6));
    for (const auto& [name, values] : reference) {
      INFO(name);
      CHECK(nqd::tests::relative_distance({{name, run.gradients.at(name)}}, {{name, values}}) <
            1e-5);
    }
  }
}

TEST_CASE("the loss changes along every tensor as its gradient says") {
  for (const Config& config : all_models()) {
    const nqd::tests::ModelPass pass{.options = {.dropout = 0.1}};
    const Tensors weights = nqd::tests::make_weights(config.model, 41);
    const Batch batch = nqd::tests::make_batch(config, 42);
    const ModelRun run = nqd::tests::run_model(config, weights, batch, pass);
    const auto loss_at = [&](const std::string& name, double step) {
      Tensors moved = weights;
      std::vector<float>& values = moved.at(name);
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] += static_cast<float>(step) * run.gradients.at(name)[i];
      }
      return nqd::tests::run_model(config, moved, batch, pass).loss();
    };
    for (const auto& [name, gradient] : run.gradients) {
      double square = 0;
      for (const float value : gradient) square += static_cast<double>(value) * value;
      // The loss, about 200, moves by ± 0.02: far above its rounding, far below its curvature.
      const double step = 0.02 / square;
      const double slope = (loss_at(name, step) - loss_at(name, -step)) / (2 * step);
      INFO(config.model.family, " ", name);
      CHECK(slope == doctest::Approx(square).epsilon(0.01));
    }
  }
}

TEST_CASE("gradients add up over micro-batches, and evaluation draws no masks") {
  for (const Config& config : {nqd::tests::small_gpt(), fast(nqd::tests::small_gpt())}) {
    const Tensors weights = nqd::tests::make_weights(config.model, 45);
    const Batch batch = nqd::tests::make_batch(config, 46);
    const ModelRun once = nqd::tests::run_model(config, weights, batch);
    ModelRun twice = nqd::tests::run_model(config, weights, batch, {.micro_batches = 2});
    for (auto& [name, values] : twice.gradients) {
      for (float& value : values) value /= 2;
    }
    CHECK(nqd::tests::relative_distance(twice.gradients, once.gradients) < 1e-6);

    const ModelRun evaluated = nqd::tests::run_model(
        config, weights, batch, {.options = {.dropout = 0.5}, .training = false});
    CHECK(evaluated.losses == once.losses);
  }
}

TEST_CASE("a layer sends two sums forward and two backward, and no logits are gathered") {
  const Config config = nqd::tests::small_gpt();
  const Tensors weights = nqd::tests::make_weights(config.model, 51);
  const Batch batch = nqd::tests::make_batch(config, 52);
  const auto calls = [&](const Config& one) {
    std::map<Collective, std::uint64_t> counts;
    for (const auto& [key, count] : nqd::tests::run_model(one, weights, batch).traffic) {
      counts[key.collective] += count.calls;
    }
    return counts;
  };
  const std::uint64_t layers = 4;
  // Beside the layers: the embedding, the head's input gradient, maxima, sums.
  auto counts = calls(with_tp(config, 2, false));
  CHECK(counts[Collective::kAllReduce] == 4 * layers + 4);
  CHECK(counts[Collective::kAllGather] == 0);
  CHECK(counts[Collective::kReduceScatter] == 0);

  // Backward gathers two inputs a layer again; one packed sum of replicated gradients for each
  // layer, the final norm and the positions.
  counts = calls(with_tp(config, 2, true));
  CHECK(counts[Collective::kReduceScatter] == 4 * layers + 2);
  CHECK(counts[Collective::kAllGather] == 6 * layers + 2);
  CHECK(counts[Collective::kAllReduce] == layers + 2 + 2);

  Config recomputing = with_tp(config, 2, false);
  recomputing.train.recompute = Recompute::kFull;
  recomputing.train.recompute_every = 2;
  counts = calls(recomputing);
  CHECK(counts[Collective::kAllReduce] == 6 * layers - layers / 2 + 4);
}

TEST_CASE("input and classes of an encoder take no sums over tp") {
  const Config config = nqd::tests::small_encoder();
  const Tensors weights = nqd::tests::make_weights(config.model, 51);
  const Batch batch = nqd::tests::make_batch(config, 52);
  const auto calls = [&](bool sequence_parallel, Collective collective) {
    std::uint64_t count = 0;
    const Config one = with_tp(config, 2, sequence_parallel);
    for (const auto& [key, sent] : nqd::tests::run_model(one, weights, batch).traffic) {
      if (key.collective == collective) count += sent.calls;
    }
    return count;
  };
  const std::uint64_t layers = 4;
  CHECK(calls(false, Collective::kAllReduce) == 4 * layers);
  CHECK(calls(false, Collective::kAllGather) == 0);
  CHECK(calls(true, Collective::kReduceScatter) == 4 * layers);
  // The final norm, and the gradient of the projected input.
  CHECK(calls(true, Collective::kAllGather) == 6 * layers + 2);
  // Of the layers, the final norm and the positions.
  CHECK(calls(true, Collective::kAllReduce) == layers + 2);
}

TEST_CASE("the ledger's peak is the planner's list") {
  for (Config config : all_models()) {
    const Tensors weights = nqd::tests::make_weights(config.model, 61);
    const Batch batch = nqd::tests::make_batch(config, 62);
    for (const Recompute recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
      config.train.recompute = recompute;
      const ModelRun run = nqd::tests::run_model(with_tp(config, 2, true), weights, batch);
      CHECK(run.peak_bytes == run.listed_bytes);
    }
  }
}

TEST_CASE("attention has the scratch that its kernels take") {
  for (const std::int64_t sequence : {1, 17, 100, 1024}) {
    for (const std::int64_t width : {4, 64, 80}) {
      const auto layout = nqd::engine::cpu::packed_attention(2, sequence, 4, 2, width, true);
      const std::int64_t listed = nqd::planner::attention_scratch_elements(sequence, width);
      CHECK(listed == nqd::engine::cpu::attention_backward_scratch(layout));
      CHECK(listed >= nqd::engine::cpu::attention_forward_scratch(layout));
    }
  }
}

TEST_CASE("masked rows have no loss, and what is no token is refused") {
  const Config config = nqd::tests::small_gpt();
  const Tensors weights = nqd::tests::make_weights(config.model, 71);
  Batch batch = nqd::tests::make_batch(config, 72);
  const ModelRun run = nqd::tests::run_model(config, weights, batch);
  for (std::size_t row = 0; row < run.losses.size(); ++row) {
    CHECK((run.losses[row] == 0) == (batch.targets[row] == -1));
  }
  CHECK(run.unmasked == std::count_if(batch.targets.begin(), batch.targets.end(),
                                      [](std::int32_t target) { return target >= 0; }));

  const auto code = [&] {
    try {
      nqd::tests::run_model(config, weights, batch);
    } catch (const nqd::Error& error) {
      return error.code();
    }
    return std::string();
  };
  batch.tokens[3] = 257;
  CHECK(code() == "NQD2040");
  batch.tokens.pop_back();
  CHECK(code() == "NQD2041");
}

TEST_CASE("what is no class, or another number of features, is refused") {
  const Config config = nqd::tests::small_encoder();
  const Tensors weights = nqd::tests::make_weights(config.model, 71);
  const Batch good = nqd::tests::make_batch(config, 72);
  const auto code = [&](const auto& change) {
    Batch batch = good;
    change(batch);
    try {
      nqd::tests::run_model(config, weights, batch);
    } catch (const nqd::Error& error) {
      return error.code();
    }
    return std::string();
  };
  CHECK(code([](Batch&) {}) == "");
  CHECK(code([](Batch& batch) { batch.targets[2] = 11; }) == "NQD2040");
  CHECK(code([](Batch& batch) { batch.targets.push_back(0); }) == "NQD2041");
  CHECK(code([](Batch& batch) { batch.features.pop_back(); }) == "NQD2041");
  CHECK(code([](Batch& batch) { batch = {{1, 2}, batch.targets}; }) == "NQD2041");
}

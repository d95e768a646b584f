// Losses and gradients of whole models against a model in double, coordinate by coordinate.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "planner/layout/layout.h"
#include "tests/engine/models/reference_model.h"
#include "tests/engine/models/run_model.h"

using nqd::planner::Config;
using nqd::tests::Batch;
using nqd::tests::DoubleTensors;
using nqd::tests::ModelRun;
using nqd::tests::Tensors;

namespace {

// Few enough weights to move each of them.
Config shrunk(Config config) {
  config.model.layers = 2;
  config.model.hidden = 8;
  config.model.heads = 4;
  config.model.head_dim = 4;
  config.model.kv_heads = config.model.family == "llama" ? 2 : 4;
  config.model.ffn_hidden = 10;
  config.model.vocab = 13;
  config.model.sequence = 6;
  config.numerics.tp_slices = 2;
  return config;
}

DoubleTensors in_double(const Tensors& weights) {
  DoubleTensors wide;
  for (const auto& [name, values] : weights) wide[name].assign(values.begin(), values.end());
  return wide;
}

// By the central difference of fourth order, whose error is that of rounding: about 1e-15 of the
// loss over the step.
DoubleTensors differences(const Config& config, DoubleTensors weights, const Batch& batch,
                          const nqd::tests::ModelPass& pass) {
  constexpr double kMove = 1e-3;
  DoubleTensors gradients;
  for (auto& [name, values] : weights) {
    for (double& value : values) {
      const double at = value;
      const auto loss = [&](double steps) {
        value = at + steps * kMove;
        return nqd::tests::reference_loss(config, weights, batch, pass, nqd::tests::kStep);
      };
      const double near = loss(1) - loss(-1);
      const double far = loss(2) - loss(-2);
      gradients[name].push_back((8 * near - far) / (12 * kMove));
      value = at;
    }
  }
  return gradients;
}

void check_gradients(const Tensors& found, const DoubleTensors& expected, double epsilon) {
  CHECK(found.size() == expected.size());
  for (const auto& [name, wanted] : expected) {
    INFO(name);
    const std::vector<float>& values = found.at(name);
    REQUIRE(values.size() == wanted.size());
    double largest = 0;
    double difference = 0;
    double square = 0;
    double worst = 0;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const double error = std::abs(values[i] - wanted[i]);
      largest = std::max(largest, std::abs(wanted[i]));
      worst = std::max(worst, error);
      difference += error * error;
      square += wanted[i] * wanted[i];
    }
    CHECK(largest > 0);
    CHECK(worst <= 4 * epsilon * largest);
    CHECK(std::sqrt(difference) <= epsilon * std::sqrt(square));
  }
}

}  // namespace

TEST_CASE(
    "every gradient of a whole model is the difference quotient of its definition in double") {
  for (Config config : {shrunk(nqd::tests::small_gpt()), shrunk(nqd::tests::small_llama())}) {
    for (const double dropout : {0.0, 0.2}) {
      const nqd::tests::ModelPass pass{.options = {.dropout = dropout}};
      const Tensors weights = nqd::tests::make_weights(config.model, 81, 0.4);
      const Batch batch = nqd::tests::make_batch(config, 82);
      const DoubleTensors wide = in_double(weights);
      const double loss = nqd::tests::reference_loss(config, wide, batch, pass, nqd::tests::kStep);
      const DoubleTensors expected = differences(config, wide, batch, pass);
      for (const auto mode :
           {nqd::collectives::Numerics::kCanonical, nqd::collectives::Numerics::kFast}) {
        config.numerics.mode = mode;
        INFO(config.model.family, ", dropout ", dropout);
        const ModelRun run = nqd::tests::run_model(config, weights, batch, pass);
        CHECK(run.loss() == doctest::Approx(loss).epsilon(3e-7));
        check_gradients(run.gradients, expected, 32 * std::numeric_limits<float>::epsilon());
      }
    }
  }
}

// Training steps of the whole model against PyTorch's (tests/fixtures/make_gpt_fixture.py).
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "base/ledger.h"
#include "engine/models/gpt.h"
#include "engine/optimizer/schedule.h"
#include "engine/optimizer/update.h"
#include "tests/fixtures/gpt_fixture.h"

using namespace nqd;

TEST_CASE("five AdamW steps with clipping and decay agree with PyTorch") {
  const auto fixture = fixtures::read_gpt_fixture(NQD_SOURCE_DIR);
  MemoryLedger ledger;
  engine::Gpt model(fixture.model, fixture.batch, ledger);
  std::copy(fixture.weights.begin(), fixture.weights.end(), model.weights().begin());
  std::vector<float> m(fixture.weights.size());
  std::vector<float> v(fixture.weights.size());
  const auto targets = static_cast<double>(fixture.unmasked_targets());
  REQUIRE(fixture.step_losses.size() == 5);
  for (std::size_t i = 0; i < fixture.step_losses.size(); ++i) {
    model.zero_gradients();
    const double loss = model.forward(fixture.tokens, fixture.targets) / targets;
    CHECK(std::abs(loss / fixture.step_losses[i] - 1) <= 1e-5);
    model.backward(static_cast<float>(1 / targets));
    const double norm = engine::global_norm(model.gradients());
    CHECK(std::abs(norm / fixture.step_gradient_norms[i] - 1) <= 1e-4);
    engine::update_parameters(model, m, v, fixture.optimizer, static_cast<std::int64_t>(i) + 1,
                              fixture.optimizer.learning_rate, norm);
  }
  double moved = 0;
  double error = 0;
  for (std::size_t i = 0; i < fixture.weights.size(); ++i) {
    moved += std::pow(fixture.final_weights[i] - fixture.weights[i], 2);
    error += std::pow(model.weights()[i] - fixture.final_weights[i], 2);
  }
  // Against the distance travelled: an update that did nothing has an error of 1.
  CHECK(std::sqrt(error / moved) <= 1e-4);
}

// The whole model against PyTorch's autograd (tests/fixtures/make_gpt_fixture.py).
#include "tests/fixtures/gpt_fixture.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "base/ledger.h"
#include "engine/models/gpt.h"

using nqd::engine::Gpt;
using nqd::engine::ParameterView;

namespace {

double norm(std::span<const float> x) {
  double sum = 0;
  for (float value : x) sum += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(sum);
}

double distance(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    sum += difference * difference;
  }
  return std::sqrt(sum);
}

}  // namespace

TEST_CASE("loss and every gradient agree with PyTorch") {
  const auto fixture = nqd::fixtures::read_gpt_fixture(NQD_SOURCE_DIR);
  nqd::MemoryLedger ledger;
  Gpt model(fixture.model, fixture.batch, ledger);
  REQUIRE(model.weights().size() == fixture.weights.size());
  std::copy(fixture.weights.begin(), fixture.weights.end(), model.weights().begin());

  const double loss = model.forward(fixture.tokens, fixture.targets);
  CHECK(loss == doctest::Approx(fixture.loss_sum).epsilon(1e-6));
  model.backward(1.0F / static_cast<float>(fixture.unmasked_targets()));

  for (const ParameterView& view : model.parameter_views()) {
    const auto offset = static_cast<std::size_t>(view.offset);
    const auto count = static_cast<std::size_t>(view.spec.elements());
    const std::span<const float> ours = model.gradients().subspan(offset, count);
    const std::span<const float> reference =
        std::span<const float>(fixture.gradients).subspan(offset, count);
    INFO(view.spec.name, ": relative error ", distance(ours, reference) / norm(reference));
    CHECK(norm(reference) > 1e-4);
    CHECK(distance(ours, reference) <= 1e-5 * norm(reference));
  }
}

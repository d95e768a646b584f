#include "engine/models/gpt.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <thread>

#include "base/error.h"
#include "base/ledger.h"
#include "planner/layout/layout.h"

using nqd::MemoryLedger;
using nqd::MemoryTag;
using nqd::engine::Gpt;
using Tokens = std::vector<std::int32_t>;

namespace {

nqd::planner::ModelSpec tiny_model() {
  nqd::planner::ModelSpec model;
  model.layers = 2;
  model.hidden = 24;
  model.heads = 3;
  model.ffn_hidden = 40;
  model.vocab = 19;
  model.sequence = 7;
  return model;
}

Tokens some_tokens(const nqd::planner::ModelSpec& model, std::int64_t batch, int seed) {
  Tokens tokens(static_cast<std::size_t>(batch * model.sequence));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<std::int32_t>((i * i * 5 + i * 3 + static_cast<std::size_t>(seed)) %
                                          static_cast<std::size_t>(model.vocab));
  }
  return tokens;
}

std::vector<float> copy(std::span<const float> values) { return {values.begin(), values.end()}; }

double relative_distance(std::span<const float> a, std::span<const float> b) {
  double difference = 0, reference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    reference += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(difference / reference);
}

struct Pass {
  double loss;
  std::vector<float> gradients;
  bool operator==(const Pass&) const = default;
};

Pass run_pass(const nqd::planner::ModelSpec& spec, const Tokens& tokens, const Tokens& targets) {
  MemoryLedger ledger;
  Gpt model(spec, static_cast<std::int64_t>(tokens.size()) / spec.sequence, ledger);
  model.initialize(7);
  const double loss = model.forward(tokens, targets);
  model.backward(0.5F);
  return {loss, copy(model.gradients())};
}

}  // namespace

TEST_CASE("the ledger's peaks are exactly what cpu_activations and parameters list") {
  for (const bool tied : {true, false}) {
    auto spec = tiny_model();
    spec.tied_head = tied;
    MemoryLedger ledger;
    Gpt model(spec, 3, ledger);
    model.initialize(1);
    model.forward(some_tokens(spec, 3, 1), some_tokens(spec, 3, 2));
    model.backward(1.0F);

    std::array<std::uint64_t, 4> elements{};
    for (const auto& activation : nqd::planner::cpu_activations(spec, 3)) {
      elements[static_cast<std::size_t>(activation.kind)] +=
          static_cast<std::uint64_t>(activation.elements);
    }
    const auto parameters = static_cast<std::uint64_t>(nqd::planner::parameter_count(spec));
    CHECK(ledger.peak_bytes(MemoryTag::kActivations) == 4 * elements[0]);
    CHECK(ledger.peak_bytes(MemoryTag::kActivationGradients) == 4 * elements[1]);
    CHECK(ledger.peak_bytes(MemoryTag::kLogits) == 4 * elements[2]);
    CHECK(ledger.peak_bytes(MemoryTag::kWorkspace) == 4 * elements[3]);
    CHECK(ledger.peak_bytes(MemoryTag::kWeights) == 4 * parameters);
    CHECK(ledger.peak_bytes(MemoryTag::kGradients) == 4 * parameters);
    CHECK(ledger.peak_total_bytes() ==
          4 * (elements[0] + elements[1] + elements[2] + elements[3] + 2 * parameters));
    CHECK(model.weights().size() == parameters);
  }
}

TEST_CASE("a fresh model predicts about evenly") {
  auto spec = tiny_model();
  MemoryLedger ledger;
  Gpt model(spec, 4, ledger);
  model.initialize(3);
  const double loss = model.forward(some_tokens(spec, 4, 0), some_tokens(spec, 4, 5));
  CHECK(loss / (4.0 * 7.0) == doctest::Approx(std::log(19.0)).epsilon(0.02));
}

TEST_CASE("the directional derivative of an untied model matches a finite difference") {
  auto spec = tiny_model();
  spec.tied_head = false;
  MemoryLedger ledger;
  Gpt model(spec, 2, ledger);
  model.initialize(5);
  const Tokens tokens = some_tokens(spec, 2, 1), targets = some_tokens(spec, 2, 4);
  model.forward(tokens, targets);
  model.backward(1.0F);
  const std::vector<float> gradient = copy(model.gradients());
  const std::vector<float> start = copy(model.weights());
  double squared = 0;
  for (float g : gradient) squared += static_cast<double>(g) * static_cast<double>(g);
  const auto loss_at = [&](double distance) {
    for (std::size_t i = 0; i < start.size(); ++i) {
      model.weights()[i] =
          start[i] + static_cast<float>(distance / std::sqrt(squared)) * gradient[i];
    }
    return model.forward(tokens, targets);
  };
  constexpr double kStep = 1e-3;
  CHECK((loss_at(kStep) - loss_at(-kStep)) / (2 * kStep) ==
        doctest::Approx(std::sqrt(squared)).epsilon(1e-3));
}

TEST_CASE("gradient descent overfits one fixed batch") {
  auto spec = tiny_model();
  MemoryLedger ledger;
  Gpt model(spec, 2, ledger);
  model.initialize(11);
  const Tokens tokens = some_tokens(spec, 2, 1), targets = some_tokens(spec, 2, 9);
  const double count = static_cast<double>(targets.size());
  const double first = model.forward(tokens, targets) / count;
  double last = first;
  for (int step = 0; step < 400; ++step) {
    last = model.forward(tokens, targets) / count;
    model.zero_gradients();
    model.backward(static_cast<float>(1.0 / count));
    for (std::size_t i = 0; i < model.weights().size(); ++i) {
      model.weights()[i] -= 0.5F * model.gradients()[i];
    }
  }
  CHECK(first > 2.5);
  CHECK(last < 0.1);
}

TEST_CASE("a masked target contributes nothing and changes nothing else") {
  auto spec = tiny_model();
  const Tokens tokens = some_tokens(spec, 2, 1);
  Tokens targets = some_tokens(spec, 2, 4);
  const Pass whole = run_pass(spec, tokens, targets);
  Tokens left = targets, right = targets;
  for (std::size_t i = 0; i < targets.size(); ++i) (i % 3 == 0 ? left : right)[i] = -1;
  const Pass a = run_pass(spec, tokens, left);
  const Pass b = run_pass(spec, tokens, right);
  CHECK(a.loss + b.loss == doctest::Approx(whole.loss).epsilon(1e-7));
  std::vector<float> sum(a.gradients.size());
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = a.gradients[i] + b.gradients[i];
  CHECK(relative_distance(sum, whole.gradients) < 1e-6);

  const Pass none = run_pass(spec, tokens, Tokens(tokens.size(), -1));
  CHECK(none.loss == 0);
  CHECK(std::all_of(none.gradients.begin(), none.gradients.end(), [](float g) { return g == 0; }));
}

TEST_CASE("two accumulated micro-batches equal one of twice the size") {
  auto spec = tiny_model();
  const Tokens tokens = some_tokens(spec, 4, 1), targets = some_tokens(spec, 4, 4);
  const Pass whole = run_pass(spec, tokens, targets);

  MemoryLedger ledger;
  Gpt model(spec, 2, ledger);
  model.initialize(7);
  double loss = 0;
  const std::size_t half = tokens.size() / 2;
  for (const std::size_t begin : {std::size_t{0}, half}) {
    loss += model.forward(std::span(tokens).subspan(begin, half),
                          std::span(targets).subspan(begin, half));
    model.backward(0.5F);
  }
  CHECK(loss == doctest::Approx(whole.loss).epsilon(1e-7));
  CHECK(relative_distance(model.gradients(), whole.gradients) < 1e-6);
  model.zero_gradients();
  CHECK(std::all_of(model.gradients().begin(), model.gradients().end(),
                    [](float g) { return g == 0; }));
}

TEST_CASE("a pass has the same bits again and from two threads at once") {
  auto spec = tiny_model();
  spec.sequence = 70;
  const Tokens tokens = some_tokens(spec, 2, 1), targets = some_tokens(spec, 2, 4);
  const Pass first = run_pass(spec, tokens, targets);
  CHECK(run_pass(spec, tokens, targets) == first);
  Pass left{}, right{};
  std::thread left_rank([&] { left = run_pass(spec, tokens, targets); });
  std::thread right_rank([&] { right = run_pass(spec, tokens, targets); });
  left_rank.join();
  right_rank.join();
  CHECK(left == first);
  CHECK(right == first);
}

TEST_CASE("a forward pass for evaluation leaves gradients alone and is repeatable after training") {
  auto spec = tiny_model();
  const Tokens tokens = some_tokens(spec, 2, 1), targets = some_tokens(spec, 2, 4);
  MemoryLedger ledger;
  Gpt model(spec, 2, ledger);
  model.initialize(7);
  const double before = model.forward(tokens, targets);
  model.backward(0.5F);
  const std::vector<float> gradients = copy(model.gradients());
  CHECK(model.forward(some_tokens(spec, 2, 8), targets) != before);
  CHECK(model.forward(tokens, targets) == before);
  CHECK(copy(model.gradients()) == gradients);
}

TEST_CASE("gradients announced as ready are final") {
  for (const bool tied : {true, false}) {
    auto spec = tiny_model();
    spec.tied_head = tied;
    MemoryLedger ledger;
    Gpt model(spec, 2, ledger);
    model.initialize(7);
    model.forward(some_tokens(spec, 2, 1), some_tokens(spec, 2, 4));
    std::vector<std::int64_t> announced;
    std::vector<float> snapshot(model.gradients().size());
    auto previous = static_cast<std::int64_t>(model.gradients().size());
    model.backward(1.0F, [&](std::int64_t ready_from) {
      REQUIRE(ready_from < previous);
      std::copy(model.gradients().begin() + ready_from, model.gradients().begin() + previous,
                snapshot.begin() + ready_from);
      announced.push_back(ready_from);
      previous = ready_from;
    });
    CHECK(announced.back() == 0);
    CHECK(announced.size() == static_cast<std::size_t>(6 * spec.layers + (tied ? 2 : 3)));
    CHECK(copy(model.gradients()) == snapshot);
  }
}

TEST_CASE("a token outside the vocabulary or a batch of the wrong size is refused by name") {
  auto spec = tiny_model();
  MemoryLedger ledger;
  Gpt model(spec, 1, ledger);
  const Tokens good = some_tokens(spec, 1, 1);
  const auto code_of = [&](const Tokens& tokens, const Tokens& targets) -> std::string {
    try {
      model.forward(tokens, targets);
    } catch (const nqd::Error& error) {
      CHECK(error.exit_code() == nqd::ExitCode::kUsage);
      return error.code();
    }
    return "accepted";
  };
  const auto with = [&](std::int32_t value) {
    Tokens changed = good;
    changed[2] = value;
    return changed;
  };
  CHECK(code_of(good, good) == "accepted");
  CHECK(code_of(good, with(-1)) == "accepted");
  CHECK(code_of(with(19), good) == "NQD2040");
  CHECK(code_of(with(-1), good) == "NQD2040");
  CHECK(code_of(good, with(19)) == "NQD2040");
  CHECK(code_of(good, with(-2)) == "NQD2040");
  CHECK(code_of(Tokens(6, 0), Tokens(7, 0)) == "NQD2041");
  CHECK(code_of(Tokens(7, 0), Tokens(8, 0)) == "NQD2041");
}

TEST_CASE("a weight that is not a number reaches the loss") {
  auto spec = tiny_model();
  MemoryLedger ledger;
  Gpt model(spec, 1, ledger);
  const Tokens tokens = some_tokens(spec, 1, 1);
  for (const std::string name : {"layers.0.attention.qkv.weight", "layers.1.mlp.fc.bias"}) {
    model.initialize(7);
    const auto view = std::find_if(model.parameter_views().begin(), model.parameter_views().end(),
                                   [&](const auto& v) { return v.spec.name == name; });
    REQUIRE(view != model.parameter_views().end());
    model.weights()[static_cast<std::size_t>(view->offset)] =
        std::numeric_limits<float>::quiet_NaN();
    CHECK(std::isnan(model.forward(tokens, tokens)));
  }
}

// Logits of imported weights against those that transformers computes.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <span>

#include "collectives/world.h"
#include "engine/device/cpu_device.h"
#include "engine/models/transformer/transformer_chunk.h"
#include "planner/layout/activation_buffers.h"
#include "tests/engine/hugging_face/fixtures.h"

using namespace nqd;

namespace {

std::vector<float> unit_weights(const planner::LocalUnit& unit,
                                const engine::HuggingFaceWeights& weights) {
  std::vector<float> values(static_cast<std::size_t>(unit.elements));
  for (const planner::LocalTensor& tensor : unit.tensors) {
    for (const planner::Piece& piece : tensor.pieces) {
      weights.fill(tensor.full, piece.full,
                   std::span(values).subspan(static_cast<std::size_t>(tensor.offset + piece.local),
                                             static_cast<std::size_t>(piece.count)));
    }
  }
  return values;
}

// Writes the logits of this rank's part of the vocabulary into `logits` [sequence, vocab].
void forward(const planner::Config& config, const engine::HuggingFaceWeights& weights,
             std::span<const std::int32_t> tokens, collectives::Communicator& group,
             std::vector<float>& logits) {
  const engine::TensorParallel tp{group.size() > 1 ? &group : nullptr, group.rank(), group.size(),
                                  config.parallel.sequence_parallel};
  engine::CpuDevice device;
  engine::ActivationArena arena(planner::activation_buffers(config, 0), nullptr, device);
  engine::TransformerChunk chunk(config, {}, 0, tp, arena, device);
  chunk.load_inputs(0, std::as_bytes(std::span(tokens)));
  chunk.load_targets(0, tokens);
  std::vector<std::vector<float>> units;
  for (const planner::LocalUnit& unit : chunk.units()) {
    units.push_back(unit_weights(unit, weights));
  }
  const auto* table = reinterpret_cast<const std::byte*>(units.front().data());
  for (std::size_t unit = 0; unit < units.size(); ++unit) {
    const auto* own = reinterpret_cast<const std::byte*>(units[unit].data());
    engine::Pass pass;
    pass.training = false;
    chunk.forward(static_cast<int>(unit), {chunk.units()[unit].holds_weights ? own : table, table},
                  pass);
  }
  const engine::RankShape shape = engine::rank_shape(config, {}, tp);
  const auto* own = reinterpret_cast<const float*>(arena.at("chunk0.slot0.head.logits"));
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    std::copy_n(own + row * shape.vocabulary_stride, shape.tokens,
                logits.begin() + row * shape.vocabulary + shape.first_token);
  }
}

void check_logits(const std::string& name, const planner::Config& config) {
  const tests::Tensors expected =
      tests::file_tensors(tests::checkpoint(name) / "logits.safetensors");
  const std::vector<float>& prompt = expected.at("tokens");
  const std::vector<std::int32_t> tokens(prompt.begin(), prompt.end());
  const std::vector<float>& theirs = expected.at("logits");
  const engine::HuggingFaceWeights weights(tests::checkpoint(name), config.model);
  std::vector<float> ours(theirs.size(), std::nanf(""));
  collectives::run_threads(
      static_cast<int>(config.parallel.tp), {},
      [&](collectives::Communicator& group) { forward(config, weights, tokens, group, ours); });
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < theirs.size(); ++i) {
    difference += std::pow(static_cast<double>(ours[i]) - theirs[i], 2);
    norm += std::pow(static_cast<double>(theirs[i]), 2);
  }
  CHECK(std::sqrt(difference / norm) < 1e-5);
}

}  // namespace

TEST_CASE("logits of imported weights are those of transformers") {
  for (const std::string name : tests::kCheckpoints) {
    for (const std::int64_t tp : {1, 2}) {
      for (const bool fast : {false, true}) {
        planner::Config config = tests::config_of(name);
        config.parallel.tp = tp;
        config.parallel.sequence_parallel = tp > 1 && fast;
        if (fast) config.numerics.mode = collectives::Numerics::kFast;
        INFO(name, ", tp ", tp, ", fast ", fast);
        check_logits(name, config);
      }
    }
  }
}

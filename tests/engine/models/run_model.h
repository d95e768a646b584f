// Runs forward and backward of a whole model, its chunks on one thread and its tp ranks as threads,
// and puts the gradients of the whole model together.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "collectives/communicator.h"
#include "engine/models/transformer/rank_shape.h"
#include "planner/spec.h"

namespace nqd::tests {

using Tensors = std::map<std::string, std::vector<float>>;

struct ModelRun {
  std::vector<double> losses;  // of all rows
  std::int64_t unmasked = 0;
  Tensors gradients;
  collectives::Traffic traffic;  // of tp rank 0
  std::uint64_t peak_bytes = 0;  // of the ledger, over stages
  std::uint64_t listed_bytes = 0;
  double loss() const;
};

struct Batch {
  std::vector<std::int32_t> tokens;  // or, of an encoder, features
  std::vector<std::int32_t> targets;
  std::vector<float> features = {};
};
// Values that are the same for every mesh; about one target in seven is masked.
Batch make_batch(const planner::Config& config, std::uint64_t seed);

// Weights of the whole model by name: matrices N(0, sigma²), norms about 1, biases about 0.
Tensors make_weights(const planner::ModelSpec& model, std::uint64_t seed, double sigma = 0.2);

// A GPT with a tied head, biases and an odd vocabulary; a Llama with grouped queries and an untied
// head. Eight slices divide all that tp divides.
planner::Config small_gpt();
planner::Config small_llama();
// An encoder of five numbers a time step and eleven classes, eight samples a micro-batch.
planner::Config small_encoder();

struct ModelPass {
  engine::TransformerOptions options = {};
  std::int64_t first_sequence = 6;
  float loss_scale = 1;
  bool training = true;
  bool direct = true;     // false: tp ranks send messages
  int micro_batches = 1;  // the same batch over again
};

// The step that dropout is told.
inline constexpr std::int64_t kStep = 3;

// Backward runs where pass.training is true. Where a tensor is on several tp ranks, its gradients
// are required to be equal to the bit; the tied head's own gradient is added to the embedding's.
ModelRun run_model(const planner::Config& config, const Tensors& weights, const Batch& batch,
                   const ModelPass& pass = {});

// ‖a − b‖ / ‖b‖ over all tensors.
double relative_distance(const Tensors& a, const Tensors& b);

}  // namespace nqd::tests

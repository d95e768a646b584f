#include "planner/activations.h"

#include <cmath>

#include "planner/stages.h"

namespace nqd::planner {

ActivationBytes gpu_activations(const Config& config) {
  const ModelSpec& model = config.model;
  const auto e = static_cast<double>(weight_bytes(config.train));
  const auto t = static_cast<double>(config.parallel.tp);
  // What tensor parallelism replicates, sequence parallelism splits.
  const double replicated = config.parallel.sequence_parallel ? t : 1;
  const auto tokens = static_cast<double>(config.train.micro_batch_size * model.sequence);
  const auto h = static_cast<double>(model.hidden);
  const auto f = static_cast<double>(model.ffn_hidden);
  const double scores = tokens * static_cast<double>(model.heads * model.sequence);

  ActivationBytes bytes;
  bytes.layer = tokens * h * (4 * e + 2) / replicated + tokens * (4 * e * h + 2 * e * f) / t +
                (2 * e + 1) * scores / t;
  bytes.kept_layer =
      config.train.recompute == Recompute::kFull ? e * tokens * h / replicated : bytes.layer;
  bytes.embedding = tokens * h / replicated;
  bytes.head = 2 * e * tokens * h / replicated;
  bytes.logits = 4 * tokens * std::ceil(static_cast<double>(model.vocab) / t);
  return bytes;
}

double layer_activation_bytes(const ActivationBytes& bytes, double layers_in_flight,
                              Recompute recompute) {
  const double kept = layers_in_flight * bytes.kept_layer;
  return recompute == Recompute::kFull && layers_in_flight > 0 ? kept + bytes.layer : kept;
}

}  // namespace nqd::planner

// What a training run reads, opened and checked before anything else happens.
#pragma once

#include <cstdint>
#include <string>

#include "engine/data/dataset.h"
#include "engine/data/sampler.h"
#include "planner/spec.h"

namespace nqd::engine {

struct TrainingData {
  TokenFile train;
  TokenFile heldout;
  Sampler sampler;
  std::uint64_t heldout_samples = 0;
  std::string digest;  // of the whole dataset; empty unless verified
};

// Opens config.data.path. `verify` recomputes every digest of the dataset (verify.h): one rank of a
// run asks for it. Throws Error (kUsage): those of TokenFile and verify_dataset, NQD1402 when the
// data has tokens that the model has no row for, NQD2007 when the text is shorter than a sequence.
TrainingData open_training_data(const planner::Config& config, bool verify);

}  // namespace nqd::engine

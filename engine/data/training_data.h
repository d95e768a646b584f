// What a training run reads, opened and checked before anything else happens.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/data/dataset.h"
#include "engine/data/sample_source.h"
#include "engine/data/sampler.h"
#include "planner/spec.h"

namespace nqd::engine {

// Sequences of a token file: sample i has `sequence` tokens, whose targets are those that follow.
class TokenSamples final : public SampleSource {
 public:
  TokenSamples(TokenFile file, std::int64_t sequence)
      : file_(std::move(file)), sequence_(sequence) {}

  std::uint64_t samples() const override { return file_.samples(sequence_); }
  void load(std::uint64_t index, std::span<std::byte> inputs,
            std::span<std::int32_t> targets) const override;

 private:
  TokenFile file_;
  std::int64_t sequence_;
};

struct TrainingData {
  std::unique_ptr<const SampleSource> train;
  std::unique_ptr<const SampleSource> heldout;
  Sampler sampler;
  std::string digest;      // of the whole dataset; empty unless verified
  bool synthetic = false;  // made up by a generator of nqd
};

// Opens config.data.path: token files, or for a time-series encoder files of series. `verify`
// recomputes every digest of the dataset (verify.h, series_dataset.h): one rank of a run asks for
// it. Throws Error (kUsage): those of TokenFile, SeriesFile and their verification, NQD1402 when
// the data has tokens or classes that the model has no row for, other time steps or features, or is
// of the other kind, NQD2007 when there is no sample to train on.
TrainingData open_training_data(const planner::Config& config, bool verify);

}  // namespace nqd::engine

#include "engine/data/training_data.h"

#include <filesystem>
#include <utility>

#include "base/error.h"
#include "engine/data/verify.h"

namespace nqd::engine {
namespace {

void check_vocabulary(const TokenFile& file, std::int64_t vocab) {
  if (file.vocab() <= vocab) return;
  throw Error(ExitCode::kUsage, "NQD1402",
              "the data has token values up to " + std::to_string(file.vocab() - 1) +
                  ", but model.vocab is " + std::to_string(vocab),
              "set model.vocab to at least " + std::to_string(file.vocab()));
}

}  // namespace

TrainingData open_training_data(const planner::Config& config, bool verify) {
  const std::filesystem::path folder = config.data.path;
  std::string digest = verify ? verify_dataset(folder).digest : "";
  TokenFile train(folder / "train.tokens");
  TokenFile heldout(folder / "heldout.tokens");
  check_vocabulary(train, config.model.vocab);
  check_vocabulary(heldout, config.model.vocab);
  const Sampler sampler(train.samples(config.model.sequence),
                        static_cast<std::uint64_t>(config.train.seed));
  const std::uint64_t heldout_samples = heldout.samples(config.model.sequence);
  return {std::move(train), std::move(heldout), sampler, heldout_samples, std::move(digest)};
}

}  // namespace nqd::engine

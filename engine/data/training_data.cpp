#include "engine/data/training_data.h"

#include <filesystem>
#include <utility>

#include "base/error.h"
#include "engine/data/series_dataset.h"
#include "engine/data/series_file.h"
#include "engine/data/verify.h"
#include "planner/models/dimensions.h"

namespace nqd::engine {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const std::string& what, const std::string& hint) {
  throw Error(ExitCode::kUsage, "NQD1402", what, hint);
}

void check_vocabulary(const TokenFile& file, std::int64_t vocab) {
  if (file.vocab() <= vocab) return;
  refuse("the data has token values up to " + std::to_string(file.vocab() - 1) +
             ", but model.vocab is " + std::to_string(vocab),
         "set model.vocab to at least " + std::to_string(file.vocab()));
}

void check_shape(const SeriesShape& data, const planner::ModelSpec& model) {
  const auto require = [](const char* key, std::int64_t model_has, std::int64_t data_has,
                          const char* of) {
    if (model_has == data_has) return;
    refuse("the data has " + std::to_string(data_has) + " " + of + ", but model." + key + " is " +
               std::to_string(model_has),
           std::string("set model.") + key + ": " + std::to_string(data_has) +
               ", or synthesize other data");
  };
  require("sequence", model.sequence, data.steps, "time steps a sample");
  require("input_features", model.input_features, data.features, "features a time step");
  if (data.classes <= model.output_features) return;
  refuse("the data has " + std::to_string(data.classes) +
             " classes, but model.output_features is " + std::to_string(model.output_features),
         "set model.output_features to at least " + std::to_string(data.classes));
}

// The files of the other kind of model alone.
void check_kind(const fs::path& folder, const char* wanted, const char* other,
                const std::string& what, const std::string& hint) {
  if (fs::exists(folder / wanted) || !fs::exists(folder / other)) return;
  refuse(folder.string() + " holds " + what, hint);
}

TrainingData open_tokens(const planner::Config& config, bool verify) {
  const fs::path folder = config.data.path;
  check_kind(folder, "train.tokens", "train.series", "time series, but the model reads tokens",
             "set data.path to a folder that `nqd data prepare` wrote");
  std::string digest = verify ? verify_dataset(folder).digest : "";
  TokenFile train(folder / "train.tokens");
  TokenFile heldout(folder / "heldout.tokens");
  check_vocabulary(train, config.model.vocab);
  check_vocabulary(heldout, config.model.vocab);
  const std::int64_t sequence = config.model.sequence;
  const Sampler sampler(train.samples(sequence), static_cast<std::uint64_t>(config.train.seed));
  return {std::make_unique<TokenSamples>(std::move(train), sequence),
          std::make_unique<TokenSamples>(std::move(heldout), sequence), sampler, std::move(digest),
          false};
}

TrainingData open_series(const planner::Config& config, bool verify) {
  const fs::path folder = config.data.path;
  check_kind(folder, "train.series", "train.tokens", "tokens, but the model reads time series",
             "set data.path to a folder that `nqd data synthesize` wrote");
  std::string digest = verify ? verify_series(folder).digest : "";
  auto train = std::make_unique<SeriesFile>(folder / "train.series");
  auto heldout = std::make_unique<SeriesFile>(folder / "heldout.series");
  check_shape(train->shape(), config.model);
  check_shape(heldout->shape(), config.model);
  const Sampler sampler(train->samples(), static_cast<std::uint64_t>(config.train.seed));
  const bool synthetic = !read_series_index(folder).generator.empty();
  return {std::move(train), std::move(heldout), sampler, std::move(digest), synthetic};
}

}  // namespace

void TokenSamples::load(std::uint64_t index, std::span<std::byte> inputs,
                        std::span<std::int32_t> targets) const {
  const std::span tokens(reinterpret_cast<std::int32_t*>(inputs.data()),
                         inputs.size() / sizeof(std::int32_t));
  file_.sample(index, sequence_, tokens, targets);
}

TrainingData open_training_data(const planner::Config& config, bool verify) {
  const bool series = planner::dimensions_of(config.model).classifies();
  return series ? open_series(config, verify) : open_tokens(config, verify);
}

}  // namespace nqd::engine

#include "engine/parity/data.h"

#include <algorithm>
#include <string>

#include "base/file.h"
#include "engine/data/dataset.h"
#include "engine/data/series_dataset.h"
#include "engine/philox.h"
#include "planner/models/dimensions.h"

namespace nqd::engine {
namespace {

constexpr std::size_t kLeastBytes = 64 << 10;
constexpr std::uint32_t kWords = 512;
constexpr std::size_t kLineLength = 72;

// Word `index` of the vocabulary: two to nine letters.
std::string word(std::uint32_t index, std::uint32_t seed) {
  const PhiloxCounter random = philox4x32_10({index, 0, 0, 0}, {seed, 1});
  std::string text;
  for (std::uint32_t i = 0; i < 2 + random[3] % 8; ++i) {
    text += static_cast<char>('a' + (random[i % 3] >> (3 * i)) % 26);
  }
  return text;
}

// Frequent words come often, as in a language: the rank of a word is the square of a uniform one.
std::string text_of(std::size_t bytes, std::uint32_t seed) {
  std::string text;
  std::size_t line = 0;
  for (std::uint32_t i = 0; text.size() < bytes; ++i) {
    const double uniform = philox4x32_10({i, 1, 0, 0}, {seed, 2})[0] / 4294967296.0;
    text += word(static_cast<std::uint32_t>(uniform * uniform * kWords), seed);
    const bool full = text.size() - line > kLineLength;
    text += full ? '\n' : ' ';
    if (full) line = text.size();
  }
  return text + "\n";
}

// Text of pseudo-words.
void generate_text(const planner::Config& config, const std::filesystem::path& folder,
                   const std::filesystem::path& output) {
  const auto needed = static_cast<std::size_t>(config.train.steps * config.train.global_batch_size *
                                               config.model.sequence);
  const std::filesystem::path text = folder / "text";
  write_file(text, text_of(std::max(2 * needed, kLeastBytes),
                           static_cast<std::uint32_t>(config.train.seed)));
  PrepareOptions options;
  options.inputs = {text};
  options.output = output;
  prepare_dataset(options);
}

void generate_crops(const planner::Config& config, const std::filesystem::path& output) {
  SynthesizeOptions options;
  options.output = output;
  options.samples =
      2 * static_cast<std::uint64_t>(config.train.steps * config.train.global_batch_size);
  options.samples = std::max<std::uint64_t>(options.samples, 64);
  options.seed = static_cast<std::uint64_t>(config.train.seed);
  options.classes = config.model.output_features;
  options.steps = config.model.sequence;
  synthesize_crops(options);
}

}  // namespace

planner::Config with_generated_data(planner::Config config, const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  const std::filesystem::path output = folder / "data";
  if (planner::dimensions_of(config.model).classifies()) {
    generate_crops(config, output);
  } else {
    generate_text(config, folder, output);
  }
  config.data.path = output.string();
  return config;
}

}  // namespace nqd::engine

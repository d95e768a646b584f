// Datasets of time series: their bytes, what is held out, and what is refused.
#include "engine/data/series_file.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/file.h"
#include "engine/data/series_dataset.h"
#include "engine/data/training_data.h"
#include "tests/temporary_folder.h"

using namespace nqd;
using engine::SeriesFile;
using engine::SynthesizeOptions;

namespace {

SynthesizeOptions small(const std::filesystem::path& output) {
  SynthesizeOptions options;
  options.output = output;
  options.samples = 23;
  options.regions = 5;
  options.classes = 4;
  options.steps = 6;
  return options;
}

template <typename Call>
std::string code_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  return "";
}

void write_series(const std::filesystem::path& path, float number, std::int32_t label) {
  engine::SeriesFileWriter writer(path, {2, 3, 4});
  const std::vector<float> numbers = {1, 2, 3, 4, number, 6};
  writer.append(numbers, label);
  writer.finish();
  writer.commit();
}

planner::Config encoder(const std::filesystem::path& data) {
  planner::Config config;
  config.model.family = "timeseries";
  config.model.sequence = 6;
  config.model.input_features = 18;
  config.model.output_features = 4;
  config.data.path = data.string();
  return config;
}

}  // namespace

TEST_CASE("a dataset has one digest, whole regions held out, and every sample once") {
  const testing::TemporaryFolder folder;
  const engine::SeriesIndex index = engine::synthesize_crops(small(folder / "a"));
  CHECK(index.digest == "2e8d71c9ab05caa333c3e948f09bc4786553b59f4fc4097c196bd7578c701723");
  CHECK(index.train.samples + index.heldout.samples == 23);
  std::uint64_t samples = 0;
  int held = 0;
  for (const engine::SeriesRegion& region : index.regions) {
    samples += region.samples;
    held += region.split == "heldout" ? 1 : 0;
    CHECK((region.samples == 4 || region.samples == 5));
  }
  CHECK(samples == 23);
  CHECK(held == 1);

  const engine::SeriesIndex again = engine::verify_series(folder / "a");
  CHECK(again.digest == index.digest);
  CHECK(again.options.seed == 1234);
  CHECK(again.features.at(6) == "near_infrared");
  SynthesizeOptions other = small(folder / "b");
  other.seed = 1235;
  CHECK(engine::synthesize_crops(other).digest != index.digest);

  const auto stats = engine::series_stats(folder / "a");
  REQUIRE(stats.size() == 2);
  CHECK(stats[0].regions == 4);
  CHECK(stats[0].samples == index.train.samples);
  CHECK(stats[0].class_entropy_nats <= std::log(4.0));
  CHECK(stats[0].class_entropy_nats > 1);
  CHECK(stats[0].feature_means.size() == 18);
}

TEST_CASE("options that make no sense are refused, and nothing is written") {
  const testing::TemporaryFolder folder;
  const auto refused = [&](auto change) {
    SynthesizeOptions options = small(folder / "new" / "data");
    change(options);
    return code_of([&] { engine::synthesize_crops(options); });
  };
  CHECK(refused([](SynthesizeOptions& o) { o.regions = 1; }) == "NQD2009");
  CHECK(refused([](SynthesizeOptions& o) { o.samples = 4; }) == "NQD2009");
  CHECK(refused([](SynthesizeOptions& o) { o.classes = 0; }) == "NQD2009");
  CHECK(refused([](SynthesizeOptions& o) { o.steps = 0; }) == "NQD2009");
  CHECK(refused([](SynthesizeOptions& o) { o.heldout_fraction = 1; }) == "NQD2009");
  CHECK(refused([](SynthesizeOptions& o) { o.heldout_fraction = std::nan(""); }) == "NQD2009");
  CHECK_FALSE(std::filesystem::exists(folder / "new"));
}

TEST_CASE("labels that are no class, numbers that are not finite and damaged files are refused") {
  const testing::TemporaryFolder folder;
  const std::filesystem::path path = folder / "one.series";
  const auto load = [&] {
    const SeriesFile file(path);
    std::vector<float> numbers(6);
    std::int32_t label = -1;
    file.load(0, std::as_writable_bytes(std::span(numbers)), {&label, 1});
    CHECK(numbers[4] == 5);
    CHECK(label == 3);
  };
  write_series(path, 5, 3);
  CHECK(code_of(load) == "");
  CHECK(code_of([&] { SeriesFile(path).verify(); }) == "");
  for (const auto& [number, label] :
       {std::pair{5.0F, 4}, std::pair{5.0F, -1}, std::pair{std::nanf(""), 3},
        std::pair{std::numeric_limits<float>::infinity(), 3}}) {
    write_series(path, number, label);
    CHECK(code_of(load) == "NQD2005");
    CHECK(code_of([&] { SeriesFile(path).verify(); }) == "NQD2005");
  }
  write_series(path, 5, 3);
  const std::string good = read_file(path);
  const auto opened = [&](std::string bytes) {
    write_file(path, bytes);
    return code_of([&] { SeriesFile(path).verify(); });
  };
  CHECK(opened(good) == "");
  CHECK(opened("") == "NQD2005");
  CHECK(opened(good.substr(0, 100)) == "NQD2005");
  CHECK(opened(good.substr(0, good.size() - 1)) == "NQD2005");
  for (const std::size_t byte : {0, 8, 12, 16, 24, 32, 64, 130}) {
    std::string damaged = good;
    damaged[byte] = static_cast<char>(damaged[byte] + 1);
    INFO("byte ", byte);
    // One class more is no damage that a reader could see.
    CHECK(opened(damaged) == (byte == 64 ? "" : "NQD2005"));
  }
  std::string huge = good;
  huge[23] = '\x7f';  // steps
  CHECK(opened(huge) == "NQD2005");
}

TEST_CASE("data that does not fit the model is refused with the key to change") {
  const testing::TemporaryFolder folder;
  engine::synthesize_crops(small(folder / "data"));
  const auto refused = [&](auto change) {
    planner::Config config = encoder(folder / "data");
    change(config);
    return code_of([&] { engine::open_training_data(config, true); });
  };
  CHECK(refused([](planner::Config&) {}) == "");
  CHECK(engine::open_training_data(encoder(folder / "data"), false).synthetic);
  CHECK(refused([](planner::Config& c) { c.model.input_features = 17; }) == "NQD1402");
  CHECK(refused([](planner::Config& c) { c.model.sequence = 7; }) == "NQD1402");
  CHECK(refused([](planner::Config& c) { c.model.output_features = 3; }) == "NQD1402");
  CHECK(refused([](planner::Config& c) { c.model.output_features = 5; }) == "");
  CHECK(refused([](planner::Config& c) {
          c.model = {};
          c.model.vocab = 256;
          c.model.sequence = 6;
        }) == "NQD1402");
  std::filesystem::resize_file(folder / "data" / "train.series", 200);
  CHECK(refused([](planner::Config&) {}) == "NQD2005");
}

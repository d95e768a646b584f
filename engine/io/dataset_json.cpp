#include "engine/io/dataset_json.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"

namespace nqd::engine {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kIndexVersion = 1;
constexpr const char* kTokens = "nqd-dataset";
constexpr const char* kSeries = "nqd-series";

// Paths may hold any bytes; JSON is UTF-8, so others are replaced rather than refused.
std::string printed(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json documents_json(const std::vector<PreparedDocument>& documents) {
  Json list = Json::array();
  for (const PreparedDocument& document : documents) {
    list.push_back({{"path", document.path},
                    {"split", document.split},
                    {"offset", document.offset},
                    {"tokens", document.tokens},
                    {"sha256", document.sha256}});
  }
  return list;
}

Json file_json(const IndexedFile& file) {
  return {{"tokens", file.tokens}, {"sha256", file.sha256}};
}

IndexedFile parse_file(const Json& json) {
  return {json.at("tokens").get<std::uint64_t>(), json.at("sha256").get<std::string>()};
}

DatasetIndex parse_index(const Json& json) {
  DatasetIndex index;
  index.digest = json.at("digest").get<std::string>();
  index.vocab = json.at("vocab").get<std::int64_t>();
  index.train = parse_file(json.at("files").at("train"));
  index.heldout = parse_file(json.at("files").at("heldout"));
  for (const Json& entry : json.at("documents")) {
    index.documents.push_back(
        {entry.at("path").get<std::string>(), entry.at("sha256").get<std::string>(),
         entry.at("tokens").get<std::uint64_t>(), entry.at("offset").get<std::uint64_t>(),
         entry.at("split").get<std::string>()});
  }
  return index;
}

Json series_json(const IndexedSeries& file) {
  return {{"samples", file.samples}, {"sha256", file.sha256}};
}

Json regions_json(const std::vector<SeriesRegion>& regions) {
  Json list = Json::array();
  for (const SeriesRegion& region : regions) {
    list.push_back(
        {{"region", region.region}, {"split", region.split}, {"samples", region.samples}});
  }
  return list;
}

SeriesIndex parse_series(const Json& json) {
  const auto file = [&](const char* split) {
    const Json& entry = json.at("files").at(split);
    return IndexedSeries{entry.at("samples").get<std::uint64_t>(),
                         entry.at("sha256").get<std::string>()};
  };
  SeriesIndex index;
  const Json& made = json.at("generator");
  index.generator = made.at("name").get<std::string>();
  index.options.samples = made.at("samples").get<std::uint64_t>();
  index.options.seed = made.at("seed").get<std::uint64_t>();
  index.options.regions = made.at("regions").get<std::int64_t>();
  index.options.classes = made.at("classes").get<std::int64_t>();
  index.options.steps = made.at("steps").get<std::int64_t>();
  index.options.heldout_fraction = made.at("heldout_fraction").get<double>();
  index.features = json.at("features").get<std::vector<std::string>>();
  index.shape = {json.at("steps").get<std::int64_t>(),
                 static_cast<std::int64_t>(index.features.size()),
                 json.at("classes").get<std::int64_t>()};
  index.digest = json.at("digest").get<std::string>();
  index.train = file("train");
  index.heldout = file("heldout");
  for (const Json& entry : json.at("regions")) {
    index.regions.push_back({entry.at("region").get<std::int64_t>(),
                             entry.at("samples").get<std::uint64_t>(),
                             entry.at("split").get<std::string>()});
  }
  return index;
}

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& why) {
  throw Error(ExitCode::kUsage, "NQD2006", path.string() + " is not a usable dataset index: " + why,
              "write the dataset with `nqd data prepare` or `nqd data synthesize`, --output " +
                  path.parent_path().string());
}

}  // namespace

std::string index_json(const DatasetIndex& index) {
  return printed(
      {{"format", kTokens},
       {"version", kIndexVersion},
       {"tokenizer", "bytes"},
       {"vocab", index.vocab},
       {"digest", index.digest},
       {"files", {{"train", file_json(index.train)}, {"heldout", file_json(index.heldout)}}},
       {"documents", documents_json(index.documents)}});
}

std::string prepare_json(const PrepareResult& result) {
  return printed({{"train_tokens", result.train_tokens},
                  {"heldout_tokens", result.heldout_tokens},
                  {"digest", result.digest},
                  {"documents", documents_json(result.documents)},
                  {"duplicates", result.duplicates},
                  {"notes", result.notes}});
}

std::string stats_json(const std::vector<SplitStats>& splits) {
  Json list = Json::array();
  for (const SplitStats& split : splits) {
    list.push_back({{"split", split.split},
                    {"documents", split.documents},
                    {"tokens", split.tokens},
                    {"distinct_tokens", split.distinct_tokens},
                    {"unigram_entropy_nats", split.unigram_entropy_nats}});
  }
  return printed({{"splits", list}});
}

std::string verify_json(const VerifiedDataset& dataset) {
  return printed({{"ok", true},
                  {"documents", dataset.documents},
                  {"train_tokens", dataset.train_tokens},
                  {"heldout_tokens", dataset.heldout_tokens},
                  {"digest", dataset.digest}});
}

// The members of dataset.json, if it is of this format.
template <typename Parse>
auto read_index(const std::filesystem::path& folder, std::string_view format, Parse&& parse) {
  const std::filesystem::path path = folder / "dataset.json";
  try {
    const Json json = Json::parse(read_file(path));
    if (json.value("format", "") != format) {
      refuse(path, "its format is not " + std::string(format));
    }
    if (json.at("version").get<int>() != kIndexVersion) {
      refuse(path, "version " + json.at("version").dump() + ", this nqd reads version " +
                       std::to_string(kIndexVersion));
    }
    return parse(json);
  } catch (const Json::exception& failure) {
    refuse(path, failure.what());
  } catch (const Error& failure) {
    if (failure.code() == "NQD2006") throw;
    refuse(path, failure.what());
  }
}

DatasetIndex read_dataset_index(const std::filesystem::path& folder) {
  return read_index(folder, kTokens, parse_index);
}

SeriesIndex read_series_index(const std::filesystem::path& folder) {
  return read_index(folder, kSeries, parse_series);
}

bool holds_series(const std::filesystem::path& folder) {
  const Json json = Json::parse(read_file(folder / "dataset.json"), nullptr, false);
  return json.is_object() && json.value("format", "") == kSeries;
}

std::string series_index_json(const SeriesIndex& index) {
  const SynthesizeOptions& options = index.options;
  return printed(
      {{"format", kSeries},
       {"version", kIndexVersion},
       {"synthetic", true},
       {"generator",
        {{"name", index.generator},
         {"samples", options.samples},
         {"seed", options.seed},
         {"regions", options.regions},
         {"classes", options.classes},
         {"steps", options.steps},
         {"heldout_fraction", options.heldout_fraction}}},
       {"steps", index.shape.steps},
       {"features", index.features},
       {"classes", index.shape.classes},
       {"digest", index.digest},
       {"files", {{"train", series_json(index.train)}, {"heldout", series_json(index.heldout)}}},
       {"regions", regions_json(index.regions)}});
}

std::string series_stats_json(const std::vector<SeriesStats>& splits) {
  Json list = Json::array();
  for (const SeriesStats& split : splits) {
    list.push_back({{"split", split.split},
                    {"regions", split.regions},
                    {"samples", split.samples},
                    {"distinct_classes", split.distinct_classes},
                    {"class_entropy_nats", split.class_entropy_nats},
                    {"feature_means", split.feature_means}});
  }
  return printed({{"splits", list}});
}

std::string series_verify_json(const SeriesIndex& index) {
  return printed({{"ok", true},
                  {"regions", index.regions.size()},
                  {"train_samples", index.train.samples},
                  {"heldout_samples", index.heldout.samples},
                  {"digest", index.digest}});
}

}  // namespace nqd::engine

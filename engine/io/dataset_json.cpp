#include "engine/io/dataset_json.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"

namespace nqd::engine {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kIndexVersion = 1;

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

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& why) {
  throw Error(
      ExitCode::kUsage, "NQD2006", path.string() + " is not a usable dataset index: " + why,
      "write the dataset with `nqd data prepare --output " + path.parent_path().string() + "`");
}

}  // namespace

std::string index_json(const DatasetIndex& index) {
  return printed(
      {{"format", "nqd-dataset"},
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

DatasetIndex read_dataset_index(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "dataset.json";
  try {
    const Json json = Json::parse(read_file(path));
    if (json.value("format", "") != "nqd-dataset") refuse(path, "its format is not nqd-dataset");
    if (json.at("version").get<int>() != kIndexVersion) {
      refuse(path, "version " + json.at("version").dump() + ", this nqd reads version " +
                       std::to_string(kIndexVersion));
    }
    return parse_index(json);
  } catch (const Json::exception& failure) {
    refuse(path, failure.what());
  } catch (const Error& failure) {
    if (failure.code() == "NQD2006") throw;
    refuse(path, failure.what());
  }
}

}  // namespace nqd::engine

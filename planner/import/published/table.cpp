#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/error.h"
#include "base/file.h"
#include "planner/config/config.h"
#include "planner/config/presets.h"
#include "planner/import/published/checks.h"
#include "planner/import/published/fields.h"
#include "planner/import/published/layout.h"
#include "planner/import/published/measurement.h"
#include "planner/import/published/model.h"
#include "planner/import/published/platform.h"
#include "planner/import/published/published.h"
#include "planner/import/published/spellings.h"

namespace nqd::planner {
namespace {

using Json = nlohmann::json;
using published::Fields;
using published::Measurement;
using published::Platform;

// [[bytes, seconds], …]
void read_points(const Json& points, Fields& fields) {
  for (const Json& point : points) {
    const bool pair =
        point.is_array() && point.size() == 2 && point[0].is_number() && point[1].is_number();
    fields.points.emplace_back(pair ? point[0].get<double>() : 0,
                               pair ? point[1].get<double>() : 0);
  }
}

// "points_us": [microseconds, …] at step_bytes, 2·step_bytes, …
void read_even_points(const Json& row, Fields& fields) {
  const auto points = row.find("points_us");
  const double step = fields.positive("step_bytes").value_or(0);
  if (points == row.end() || !points->is_array() || step == 0) return;
  double bytes = 0;
  for (const Json& point : *points) {
    bytes += step;
    fields.points.emplace_back(bytes, point.is_number() ? point.get<double>() * 1e-6 : 0);
  }
}

// A null takes back what the file's defaults say.
void read_members(const Json& object, const std::string& prefix, int depth, Fields& fields) {
  constexpr int kMaxDepth = 4;
  for (const auto& [key, value] : object.items()) {
    const std::string path = prefix + key;
    if (value.is_object()) {
      fields.set(path, std::string("{…}"));
      if (depth < kMaxDepth) read_members(value, path + ".", depth + 1, fields);
    } else if (value.is_null()) {
      fields.erase(path);
    } else if (value.is_number()) {
      fields.set(path, value.get<double>());
    } else if (value.is_boolean()) {
      fields.set(path, value.get<bool>());
    } else if (value.is_string()) {
      fields.set(path, value.get<std::string>());
    } else if (key == "points_bytes_seconds" && value.is_array()) {
      read_points(value, fields);
    } else if (value.is_array() && key != "points_us") {
      fields.set(path, value.dump());
    }
  }
}

// Seconds or bytes that a run can have taken; the quotient of two cannot overflow.
bool plausible(double measured) { return measured > 1e-12 && measured < 1e18; }

// A member that is an object, else an empty one.
Json member(const Json& object, const std::string& key) {
  if (!object.is_object()) return Json::object();
  const auto found = object.find(key);
  return found != object.end() && found->is_object() ? *found : Json::object();
}

// Line and column, from 1, of a byte of the text.
std::string place_of(const std::string& text, std::size_t byte) {
  const std::size_t end = std::min(byte, text.size());
  const auto line = std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(end), '\n');
  const std::size_t start = end == 0 ? std::string::npos : text.rfind('\n', end - 1);
  const std::size_t column = start == std::string::npos ? end + 1 : end - start;
  return std::to_string(line + 1) + ":" + std::to_string(column);
}

// Line and column of the value of a member of the outermost object; of the first value without it.
std::string place_of_member(const std::string& text, std::string_view member) {
  const std::string quoted = '"' + std::string(member) + '"';
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '{' || text[i] == '[') ++depth;
    if (text[i] == '}' || text[i] == ']') --depth;
    if (text[i] != '"') continue;
    const std::size_t start = i;
    for (++i; i < text.size() && text[i] != '"'; ++i) i += text[i] == '\\' ? 1 : 0;
    const std::size_t colon = text.find_first_not_of(" \t\r\n", i + 1);
    const bool is_key = colon != std::string::npos && text[colon] == ':';
    if (depth == 1 && is_key && text.compare(start, i + 1 - start, quoted) == 0) {
      return place_of(text, text.find_first_not_of(" \t\r\n", colon + 1));
    }
  }
  return place_of(text, text.find_first_not_of(" \t\r\n"));
}

// A table is five deep; a tree that is deeper by far would exhaust the stack when it is freed.
constexpr int kMaxDepth = 32;

Json parse(const std::string& text, const std::string& file) {
  try {
    return Json::parse(text, [&](int depth, Json::parse_event_t, Json&) {
      if (depth <= kMaxDepth) return true;
      throw Error(
          ExitCode::kUsage, "NQD2060",
          file + ": nested more than " + std::to_string(kMaxDepth) + " deep, which no table needs",
          "give a table of published rows: {\"rows\": [{…}]}");
    });
  } catch (const Json::parse_error& error) {
    const std::size_t byte = error.byte > 0 ? error.byte - 1 : 0;
    throw Error(ExitCode::kUsage, "NQD2060",
                file + ":" + place_of(text, byte) + ": this is not JSON" +
                    (byte >= text.size() ? ": the text ends inside a value" : ""),
                "give a table of published rows: {\"rows\": [{…}]}");
  } catch (const Json::exception& error) {  // a number that no double can hold, between quotes
    const std::string_view what = error.what();
    const std::size_t start = what.find('\'');
    const std::size_t at = start == std::string_view::npos
                               ? 0
                               : text.find(what.substr(start + 1, what.rfind('\'') - start - 1));
    throw Error(ExitCode::kUsage, "NQD2060",
                file + ":" + place_of(text, at) + ": a number is out of range",
                "give a table of published rows: {\"rows\": [{…}]}");
  }
}

[[noreturn]] void throw_no_table(const std::string& text, const std::string& file,
                                 const std::string& what) {
  throw Error(ExitCode::kUsage, "NQD2061", file + ":" + place_of_member(text, "rows") + ": " + what,
              "a table is {\"description\": \"…\", \"rows\": [{…}]}; docs/accuracy.md has the "
              "fields of a row");
}

// Cluster, device and stack of a config by presets, loaded once each.
class Bases {
 public:
  const Config* find(const Platform& platform, Precision precision, std::string& problem) {
    const Key key{platform.gpu, platform.cluster, platform.stack, precision};
    const auto [place, fresh] = bases_.try_emplace(key);
    if (fresh) place->second = load(platform, precision);
    if (!place->second.ok()) {
      problem = place->second.diagnostics.front().message;
      return nullptr;
    }
    return &place->second.config;
  }

 private:
  using Key = std::tuple<std::string, std::string, std::string, Precision>;

  static LoadedConfig load(const Platform& platform, Precision precision) {
    const std::span<const Preset> presets = cluster_presets();
    const bool shipped = std::any_of(presets.begin(), presets.end(), [&](const Preset& preset) {
      return preset.name == platform.cluster;
    });
    const std::string cluster =
        (shipped ? "preset: " + platform.cluster : std::string("gpus_per_node: 8")) +
        ", gpu: " + platform.gpu;
    return load_config_text("model: {family: state, parameters: 1e9, sequence: 1}\ncluster: {" +
                                cluster + "}\nstack: {preset: " + platform.stack +
                                "}\ntrain: {precision: " + std::string(name(precision)) + "}\n",
                            platform.gpu);
  }

  std::map<Key, LoadedConfig> bases_;
};

class TableReader {
 public:
  TableReader(std::string file, std::string description) {
    table_.file = std::move(file);
    table_.description = std::move(description);
  }

  // `root` holds the file's "defaults" of all rows, and its "models": the `arch` of rows that give
  // none, by their `model`.
  PublishedTable read(const Json& rows, const Json& root) {
    Fields defaults;
    read_members(member(root, "defaults"), "", 0, defaults);
    const Json models = member(root, "models");
    std::vector<Fields> all;
    for (const Json& row : rows) {
      Fields& fields = all.emplace_back(defaults);
      if (row.is_object()) {
        read_members(row, "", 0, fields);
        read_even_points(row, fields);
      }
      published::settle_spellings(fields);
      if (!fields.has("arch.layers")) {
        read_members(member(models, fields.text("model")), "arch.", 0, fields);
        published::settle_spellings(fields);
      }
      ++uses_[fields.text("id")];
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
      read_row(all[i], i, rows[i].is_object());
    }
    return std::move(table_);
  }

 private:
  void read_row(Fields& row, std::size_t index, bool is_object) {
    PublishedRow result;
    result.id = row.text("id");
    const std::string place =
        table_.file.substr(table_.file.rfind('/') + 1) + "#" + std::to_string(index);
    if (result.id.empty() || uses_[result.id] > 1) result.id = place;
    result.model = row.text("model");
    result.suspect = row.text("suspect");
    result.not_fitted = row.text("not_fitted");
    if (!is_object) return skip(std::move(result), "the row is no object");
    if (row.points.empty()) return read_step(row, std::move(result));
    read_curve(row, place, std::move(result));
  }

  void skip(PublishedRow row, std::string reason) {
    row.skip_reason = std::move(reason);
    table_.rows.push_back(std::move(row));
  }

  const Config* base_of(const Platform& platform, Precision precision, std::string& problem) {
    return problem.empty() ? bases_.find(platform, precision, problem) : nullptr;
  }

  void read_curve(const Fields& row, const std::string& place, PublishedRow result) {
    Platform platform = published::platform_of(row, table_.description);
    std::string problem = platform.problem;
    if (row.lower("op") != "all_reduce") problem = "a curve of another collective than all_reduce";
    const std::int64_t ranks = row.count_or("ranks", 0);
    if (ranks < 2) problem = "the curve does not say which number of ranks above 1 it has";
    const Config* base = base_of(platform, Precision::kBFloat16, problem);
    if (base == nullptr) return skip(std::move(result), problem);
    result.config = std::make_shared<const Config>(*base);
    result.quantity = Quantity::kCollectiveTime;
    result.ranks = ranks;
    for (const auto& [bytes, seconds] : row.points) {
      PublishedRow point = result;
      const bool sized = bytes > 0 && bytes < 1e15;
      point.id = place + "@" + (sized ? std::to_string(static_cast<std::int64_t>(bytes)) : "?");
      if (!sized || !plausible(seconds)) {
        point.config = nullptr;
        skip(std::move(point), "the point is no pair of bytes and seconds");
        continue;
      }
      point.bytes = bytes;
      point.measured = seconds;
      table_.rows.push_back(std::move(point));
    }
  }

  void read_step(Fields& row, PublishedRow result) {
    const std::optional<published::PeakMemory> memory = published::peak_memory(row);
    if (memory && !row.has("gpu")) {
      // What a model and its layout hold does not depend on the device.
      row.set("gpu", std::string("A100-80GB SXM"));
      row.assumed.emplace_back("A100-80GB SXM");
    }
    Platform platform = published::platform_of(row, table_.description);
    std::string problem =
        platform.problem.empty() ? published::unreadable_field(row) : platform.problem;
    if (memory && problem.empty()) problem = memory->problem;
    const ModelSpec model = problem.empty() ? published::model_of(row, problem) : ModelSpec{};
    const Precision precision =
        problem.empty() ? published::precision_of(row, platform, problem) : Precision::kBFloat16;
    const Config* base = base_of(platform, precision, problem);
    if (base == nullptr) return skip(std::move(result), problem);
    Config config = *base;
    config.model = model;
    config.parallel = {};
    config.train.precision = precision;
    if (platform.network_bytes_per_s > 0) {
      config.cluster.inter_node.bandwidth_bytes_per_s = platform.network_bytes_per_s;
    }
    if (platform.nics_per_node > 0) {
      config.cluster.nics_per_node = platform.nics_per_node;
    }
    published::read_layout(row, platform, config, problem);
    if (!problem.empty()) return skip(std::move(result), problem);
    ModelSpec counted = model;
    counted.sequence = config.model.sequence;
    const std::optional<Measurement> time = published::step_time(row, platform, counted, config);
    if (!time && !memory) {
      return skip(std::move(result),
                  "the row has neither a step time, nor a rate that one follows "
                  "from, nor a peak memory");
    }
    result.config = std::make_shared<const Config>(std::move(config));
    result.assumed = row.assumed;
    if (time) add(result, Quantity::kStepTime, *time);
    if (!memory) return;
    result.memory_kind = published::memory_kind(row, memory->field, platform, table_.description);
    add(result, Quantity::kPeakMemory, memory->measurement);
  }

  void add(PublishedRow row, Quantity quantity, const Measurement& measurement) {
    if (!plausible(measurement.value)) {
      row.config = nullptr;
      return skip(std::move(row), "what it measured is out of all proportion");
    }
    row.quantity = quantity;
    row.measured = measurement.value;
    row.derived = measurement.derived;
    table_.rows.push_back(std::move(row));
  }

  PublishedTable table_;
  std::map<std::string, int> uses_;  // of an id
  Bases bases_;
};

}  // namespace

std::string_view name(Quantity quantity) {
  switch (quantity) {
    case Quantity::kStepTime:
      return "step_time_s";
    case Quantity::kPeakMemory:
      return "peak_memory_bytes";
    case Quantity::kCollectiveTime:
      return "collective_time_s";
  }
  return "?";
}

PublishedTable read_published_text(const std::string& text, const std::string& file) {
  const Json root = parse(text, file);
  const Json rows = root.is_object() ? root.value("rows", Json()) : root;
  if (root.is_object() && !root.contains("rows"))
    throw_no_table(text, file, "the table has no \"rows\"");
  if (!rows.is_array()) {
    throw_no_table(
        text, file,
        root.is_object() ? "\"rows\" is no list" : "this is neither a table nor a list of rows");
  }
  const Json description = root.is_object() ? root.value("description", Json()) : Json();
  const std::string text_of = description.is_string() ? description.get<std::string>() : "";
  return TableReader(file, text_of).read(rows, root);
}

PublishedTable read_published(const std::string& path) {
  return read_published_text(read_file(path), path);
}

}  // namespace nqd::planner

#include "engine/io/checkpoint_json.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "base/checksum.h"
#include "base/error.h"

namespace nqd::engine {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "nqd-checkpoint";

[[noreturn]] void refuse(const std::string& name, const std::string& why) {
  throw Error(ExitCode::kUsage, "NQD2080", name + " is no usable checkpoint manifest: " + why,
              "resume from another generation (`nqd checkpoint list` shows them)");
}

Json extents_json(const std::vector<Extent>& extents) {
  Json list = Json::array();
  for (const Extent& e : extents) list.push_back({e.begin, e.count, e.stride, e.repeats});
  return list;
}

std::vector<Extent> parse_extents(const Json& json) {
  std::vector<Extent> extents;
  for (const Json& entry : json) {
    Extent e{entry.at(0).get<std::int64_t>(), entry.at(1).get<std::int64_t>(),
             entry.at(2).get<std::int64_t>(), entry.at(3).get<std::int64_t>()};
    extents.push_back(e);
  }
  return extents;
}

Quantity parse_quantity(const std::string& text) {
  for (std::size_t i = 0; i < kQuantities; ++i) {
    if (name(static_cast<Quantity>(i)) == text) return static_cast<Quantity>(i);
  }
  throw std::invalid_argument("`" + text + "` is no quantity");
}

std::uint64_t parse_hex(const std::string& text) {
  std::size_t used = 0;
  const std::uint64_t value = std::stoull(text, &used, 16);
  if (used != text.size() || text.size() != 16) throw std::invalid_argument("a checksum");
  return value;
}

Json file_json(const CheckpointFile& file) {
  Json blocks = Json::array();
  for (const std::uint64_t block : file.blocks) blocks.push_back(hex64(block));
  Json parts = Json::array();
  for (const CheckpointPart& part : file.parts) {
    parts.push_back({{"tensor", part.tensor},
                     {"quantity", name(part.quantity)},
                     {"offset", part.offset},
                     {"extents", extents_json(part.extents)}});
  }
  return {{"name", file.name}, {"bytes", file.bytes}, {"xxh3_64", blocks}, {"parts", parts}};
}

CheckpointFile parse_file(const Json& json) {
  CheckpointFile file;
  file.name = json.at("name").get<std::string>();
  file.bytes = json.at("bytes").get<std::uint64_t>();
  for (const Json& block : json.at("xxh3_64")) {
    file.blocks.push_back(parse_hex(block.get<std::string>()));
  }
  for (const Json& part : json.at("parts")) {
    file.parts.push_back({part.at("tensor").get<std::string>(),
                          parse_quantity(part.at("quantity").get<std::string>()),
                          part.at("offset").get<std::uint64_t>(),
                          parse_extents(part.at("extents"))});
  }
  return file;
}

Json state_json(const RunState& state) {
  Json json = {{"step", state.step},
               {"skipped_steps", state.skipped_steps},
               {"skipped_in_a_row", state.skipped_in_a_row},
               {"loss_scale", state.loss_scale},
               {"good_steps", state.good_steps},
               {"noise", state.noise},
               {"signal", state.signal}};
  if (state.format() >= 2) {
    json["data_offset"] = state.data_offset;
    json["roll_backs"] = state.roll_backs;
  }
  if (!state.good_losses.empty()) json["good_losses"] = state.good_losses;
  return json;
}

RunState parse_state(const Json& json, int version) {
  RunState state;
  state.step = json.at("step").get<std::int64_t>();
  state.skipped_steps = json.at("skipped_steps").get<std::int64_t>();
  state.skipped_in_a_row = json.at("skipped_in_a_row").get<std::int64_t>();
  state.loss_scale = json.at("loss_scale").get<float>();
  state.good_steps = json.at("good_steps").get<int>();
  state.noise = json.at("noise").get<double>();
  state.signal = json.at("signal").get<double>();
  if (version >= 2) {
    state.data_offset = json.at("data_offset").get<std::int64_t>();
    state.roll_backs = json.at("roll_backs").get<std::int64_t>();
    if (state.data_offset < 0) throw std::invalid_argument("its data_offset is negative");
  }
  state.good_losses = json.value("good_losses", std::vector<double>());
  const bool possible = state.step >= 0 && state.skipped_steps >= 0 &&
                        state.skipped_in_a_row >= 0 && state.good_steps >= 0 &&
                        state.loss_scale > 0 && std::isfinite(state.loss_scale);
  if (!possible) throw std::invalid_argument("its state is that of no run");
  return state;
}

Manifest parse(const Json& json, int version) {
  Manifest manifest;
  manifest.generation = json.at("generation").get<std::string>();
  manifest.written_at = json.at("written_at").get<std::string>();
  if (!unix_seconds(manifest.written_at)) {
    throw std::invalid_argument("its written_at `" + manifest.written_at + "` is no time in UTC");
  }
  manifest.mesh = json.at("mesh").get<std::string>();
  manifest.data_digest = json.at("data_digest").get<std::string>();
  manifest.config = json.at("config").get<std::map<std::string, std::string>>();
  manifest.state = parse_state(json.at("state"), version);
  manifest.lineage = json.value("lineage", std::vector<std::string>{});
  for (const Json& quantity : json.at("quantities")) {
    manifest.quantities.push_back(parse_quantity(quantity.get<std::string>()));
  }
  for (const Json& tensor : json.at("tensors")) {
    manifest.tensors.push_back({tensor.at("name").get<std::string>(),
                                tensor.at("shape").get<std::vector<std::int64_t>>()});
  }
  for (const Json& file : json.at("files")) manifest.files.push_back(parse_file(file));
  return manifest;
}

// Extents that lie inside the tensor and a part inside its file.
void check_part(const CheckpointPart& part, const CheckpointFile& file, std::int64_t elements) {
  for (const Extent& e : part.extents) {
    const bool inside = e.begin >= 0 && e.count > 0 && e.repeats > 0 && e.stride >= e.count &&
                        e.count <= elements && e.stride <= elements && e.repeats <= elements &&
                        e.begin <= elements - e.count &&
                        e.repeats - 1 <= (elements - e.count - e.begin) / e.stride;
    if (!inside) throw std::invalid_argument(part.tensor + " has elements outside its shape");
  }
  if (part.offset % sizeof(float) != 0 || part.offset > file.bytes ||
      part.bytes() > file.bytes - part.offset) {
    throw std::invalid_argument(part.tensor + " lies outside " + file.name);
  }
}

void check_names(const Manifest& manifest) {
  std::set<std::string> names;
  for (const CheckpointFile& file : manifest.files) {
    if (file.name.empty() || file.name.find('/') != std::string::npos || file.name == "..") {
      throw std::invalid_argument("`" + file.name + "` is no name of a file");
    }
    if (!names.insert(file.name).second) throw std::invalid_argument(file.name + " is given twice");
    if (file.blocks.size() != (file.bytes + kCheckpointBlock - 1) / kCheckpointBlock) {
      throw std::invalid_argument(file.name + " has not a checksum for every block");
    }
  }
}

// Every tensor has each of its elements, of every quantity, as often as once in sum. Two that
// overlap while one is missing are found when they are read.
void check_tensors(const Manifest& manifest) {
  std::map<std::string, std::int64_t> elements;
  for (const CheckpointTensor& tensor : manifest.tensors) {
    std::int64_t product = 1;
    for (const std::int64_t extent : tensor.shape) {
      if (extent <= 0 || product > (std::int64_t{1} << 56) / extent) {
        throw std::invalid_argument(tensor.name + " has no possible shape");
      }
      product *= extent;
    }
    if (!elements.emplace(tensor.name, product).second) {
      throw std::invalid_argument(tensor.name + " is given twice");
    }
  }
  std::map<std::pair<std::string, Quantity>, std::int64_t> held;
  for (const CheckpointFile& file : manifest.files) {
    for (const CheckpointPart& part : file.parts) {
      const auto found = elements.find(part.tensor);
      if (found == elements.end()) {
        throw std::invalid_argument(file.name + " holds " + part.tensor + ", which is no tensor");
      }
      check_part(part, file, found->second);
      held[{part.tensor, part.quantity}] += elements_of(part.extents);
    }
  }
  for (const Quantity quantity : manifest.quantities) {
    for (const auto& [tensor, count] : elements) {
      const auto found = held.find({tensor, quantity});
      const std::int64_t have = found == held.end() ? 0 : found->second;
      if (have == count) continue;
      throw std::invalid_argument(std::to_string(have) + " of " + std::to_string(count) +
                                  " elements of " + tensor + " (" + std::string(name(quantity)) +
                                  ") are in its files");
    }
  }
}

}  // namespace

std::string manifest_json(const Manifest& manifest) {
  Json quantities = Json::array();
  for (const Quantity quantity : manifest.quantities) quantities.push_back(name(quantity));
  Json tensors = Json::array();
  for (const CheckpointTensor& tensor : manifest.tensors) {
    tensors.push_back({{"name", tensor.name}, {"shape", tensor.shape}});
  }
  Json files = Json::array();
  for (const CheckpointFile& file : manifest.files) files.push_back(file_json(file));
  const Json json = {{"format", kFormat},
                     {"version", manifest.state.format()},
                     {"generation", manifest.generation},
                     {"written_at", manifest.written_at},
                     {"mesh", manifest.mesh},
                     {"data_digest", manifest.data_digest},
                     {"state", state_json(manifest.state)},
                     {"lineage", manifest.lineage},
                     {"config", manifest.config},
                     {"quantities", quantities},
                     {"tensors", tensors},
                     {"files", files}};
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Manifest parse_manifest(const std::string& text, const std::string& name) {
  try {
    const Json json = Json::parse(text);
    if (json.value("format", "") != kFormat) refuse(name, "its format is not nqd-checkpoint");
    const int version = json.at("version").get<int>();
    if (version < 1) refuse(name, "its version is " + std::to_string(version));
    if (version > kCheckpointFormat) {
      throw Error(ExitCode::kUsage, "NQD2081",
                  name + " has format version " + std::to_string(version) +
                      ", this nqd reads up to " + std::to_string(kCheckpointFormat),
                  "read it with the nqd that wrote it, or a newer one");
    }
    Manifest manifest = parse(json, version);
    check_names(manifest);
    check_tensors(manifest);
    return manifest;
  } catch (const Json::exception& failure) {
    refuse(name, failure.what());
  } catch (const std::logic_error& failure) {
    refuse(name, failure.what());
  }
}

std::string checkpoint_file_json(const CheckpointFile& file) {
  return file_json(file).dump() + "\n";
}

CheckpointFile parse_checkpoint_file(const std::string& text, const std::string& name) {
  try {
    return parse_file(Json::parse(text));
  } catch (const Json::exception& failure) {
    refuse(name, failure.what());
  } catch (const std::logic_error& failure) {
    refuse(name, failure.what());
  }
}

}  // namespace nqd::engine

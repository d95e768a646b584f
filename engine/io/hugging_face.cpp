#include "engine/io/hugging_face.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "engine/io/hugging_face_config.h"
#include "planner/config/source.h"

namespace nqd::engine {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kShownBytes = 120;  // of a name or a parser's words in a message
constexpr const char* kWeightsFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";
constexpr const char* kConfigFile = "config.json";
constexpr const char* kWriteModelSection =
    "`nqd import --from hf config.json` writes the model section that weights have";

[[noreturn]] void misfit(const std::filesystem::path& path, const std::string& why) {
  throw Error(ExitCode::kUsage, "NQD2071", path.string() + ": " + why, kWriteModelSection);
}

// Masks and tables that older versions of transformers stored beside the weights.
bool is_buffer(std::string_view name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") ||
         name.ends_with(".rotary_emb.inv_freq");
}

std::string_view without_prefix(std::string_view name, std::string_view prefix) {
  if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  return name;
}

// Of a path that cannot be looked at, opening it says why.
bool is_folder(const std::filesystem::path& path) {
  std::error_code unknown;
  return std::filesystem::is_directory(path, unknown);
}
bool is_there(const std::filesystem::path& path) {
  std::error_code unknown;
  return std::filesystem::exists(path, unknown);
}

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return is_folder(path) ? path : path.parent_path();
}

std::vector<SafetensorsWriter::Entry> entries_of(const planner::ModelSpec& model,
                                                 const std::vector<planner::TensorSpec>& tensors) {
  std::vector<SafetensorsWriter::Entry> entries;
  for (const planner::TensorSpec& tensor : tensors) {
    for (const HuggingFacePart& part : hugging_face_parts(model, tensor)) {
      entries.push_back({part.name, part.shape});
    }
  }
  return entries;
}

}  // namespace

HuggingFaceWeights::HuggingFaceWeights(const std::filesystem::path& path,
                                       const planner::ModelSpec& model) {
  const std::string_view prefix = name_prefix(hugging_face_model(model));
  const std::filesystem::path config = folder_of(path) / kConfigFile;
  if (is_there(config)) check_hugging_face_config(config, model);
  open(path);
  for (const planner::TensorSpec& tensor : planner::parameters(model)) {
    for (const HuggingFacePart& part : hugging_face_parts(model, tensor)) {
      sources_[tensor.name].push_back(find(part, prefix));
    }
  }
  refuse_strangers(model);
  if (model.tied_head) check_tied_copy(model);
}

void HuggingFaceWeights::open(const std::filesystem::path& path) {
  if (!is_folder(path)) {
    files_.push_back(std::make_unique<SafetensorsFile>(path));
  } else if (is_there(path / kWeightsFile)) {
    files_.push_back(std::make_unique<SafetensorsFile>(path / kWeightsFile));
  } else if (is_there(path / kIndexFile)) {
    open_index(path / kIndexFile);
  } else {
    throw Error(ExitCode::kUsage, "NQD2001",
                path.string() + " has neither " + kWeightsFile + " nor " + kIndexFile,
                "give a folder that save_pretrained of transformers or nqd wrote");
  }
}

void HuggingFaceWeights::open_index(const std::filesystem::path& index) {
  std::set<std::string> names;
  try {
    const Json json = Json::parse(read_file(index));
    for (const auto& [tensor, file] : json.at("weight_map").items()) {
      names.insert(file.get<std::string>());
    }
  } catch (const Json::exception& failure) {
    throw Error(ExitCode::kUsage, "NQD2070",
                index.string() + " is no index of safetensors files: " +
                    planner::printable(failure.what(), kShownBytes),
                "fetch or write the file again");
  }
  if (names.empty()) misfit(index, "its weight_map names no file");
  std::set<std::string> seen;
  for (const std::string& name : names) {
    if (name != std::filesystem::path(name).filename()) {
      misfit(index, "\"" + planner::printable(name) + "\" is not the name of a file beside it");
    }
    files_.push_back(std::make_unique<SafetensorsFile>(index.parent_path() / name));
    for (const auto& [tensor, entry] : files_.back()->tensors()) {
      if (!seen.insert(tensor).second) {
        misfit(files_.back()->path(), "tensor \"" + planner::printable(tensor, kShownBytes) +
                                          "\" is in another of the files too");
      }
    }
  }
}

HuggingFaceWeights::Source HuggingFaceWeights::find(const HuggingFacePart& part,
                                                    std::string_view prefix) const {
  for (const std::string_view name :
       {std::string_view(part.name), without_prefix(part.name, prefix)}) {
    for (const auto& file : files_) {
      const auto found = file->tensors().find(name);
      if (found == file->tensors().end()) continue;
      const SafetensorsTensor& tensor = found->second;
      if (tensor.shape != part.shape) {
        misfit(file->path(), "tensor \"" + found->first + "\" is " + shape_text(tensor.shape) +
                                 ", the model has " + shape_text(part.shape));
      }
      if (!float_type(tensor)) {
        misfit(file->path(), "tensor \"" + found->first + "\" is of type " + tensor.dtype +
                                 ", nqd reads F32, F16 and BF16");
      }
      return {part, file.get(), &tensor};
    }
  }
  misfit(files_.front()->path(), "there is no tensor \"" + part.name + "\"");
}

void HuggingFaceWeights::refuse_strangers(const planner::ModelSpec& model) const {
  std::set<const SafetensorsTensor*> used;
  for (const auto& [name, parts] : sources_) {
    for (const Source& source : parts) used.insert(source.tensor);
  }
  for (const auto& file : files_) {
    for (const auto& [name, tensor] : file->tensors()) {
      const bool copy = model.tied_head && name == "lm_head.weight";
      if (used.count(&tensor) > 0 || is_buffer(name) || copy) continue;
      misfit(file->path(),
             "tensor \"" + planner::printable(name, kShownBytes) + "\" has no place in the model");
    }
  }
}

// Some files repeat the token table as the head; another head would be lost.
void HuggingFaceWeights::check_tied_copy(const planner::ModelSpec& model) const {
  const Source& table = sources_.at(planner::parameters(model).front().name).front();
  for (const auto& file : files_) {
    const auto head = file->tensors().find("lm_head.weight");
    if (head == file->tensors().end()) continue;
    if (file->bytes(head->second) == table.file->bytes(*table.tensor)) continue;
    misfit(file->path(),
           "lm_head.weight is not the token table, but the config has model.tied_head: true");
  }
}

void HuggingFaceWeights::fill(const planner::TensorSpec& tensor, std::int64_t begin,
                              std::span<float> out) const {
  const std::int64_t columns = tensor.shape.size() == 2 ? tensor.shape.back() : 1;
  const std::int64_t end = begin + static_cast<std::int64_t>(out.size());
  for (const Source& source : sources_.at(tensor.name)) {
    const HuggingFacePart& part = source.part;
    const std::int64_t origin = part.row * columns;
    std::int64_t at = std::max(begin, origin);
    const std::int64_t stop = std::min(end, origin + part.rows * columns);
    while (at < stop) {
      // A row of nqd's is a column of a transposed part; else all of the part is one run.
      const std::int64_t within = at - origin;
      const std::int64_t row = within / columns;
      const std::int64_t run =
          part.transposed ? std::min(stop - at, (row + 1) * columns - within) : stop - at;
      const std::span<float> to =
          out.subspan(static_cast<std::size_t>(at - begin), static_cast<std::size_t>(run));
      if (part.transposed) {
        source.file->read(*source.tensor, within % columns * part.rows + row, part.rows, to);
      } else {
        source.file->read(*source.tensor, within, 1, to);
      }
      at += run;
    }
  }
}

HuggingFaceExport::HuggingFaceExport(const std::filesystem::path& folder,
                                     const planner::ModelSpec& model, DType type)
    : model_(model), tensors_(planner::parameters(model)) {
  const std::string config = hugging_face_config(model, type);
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure) {
    throw Error(ExitCode::kUsage, "NQD2002",
                "cannot make the folder " + folder.string() + ": " + failure.message(),
                "give a path in a folder that this user may write");
  }
  weights_ =
      std::make_unique<SafetensorsWriter>(folder / kWeightsFile, entries_of(model, tensors_), type);
  config_ = std::make_unique<AtomicFile>(folder / kConfigFile);
  config_->write(config);
}

void HuggingFaceExport::append(const std::string& tensor, std::span<const float> values) {
  if (next_ == tensors_.size() || tensors_[next_].name != tensor) {
    throw std::logic_error(tensor + " is not the next tensor of the model");
  }
  const planner::TensorSpec& spec = tensors_[next_++];
  const std::int64_t columns = spec.shape.size() == 2 ? spec.shape.back() : 1;
  std::vector<float> column;
  for (const HuggingFacePart& part : hugging_face_parts(model_, spec)) {
    const auto rows = static_cast<std::size_t>(part.rows);
    const std::span<const float> own = values.subspan(static_cast<std::size_t>(part.row * columns),
                                                      rows * static_cast<std::size_t>(columns));
    if (!part.transposed) {
      weights_->append(own);
      continue;
    }
    column.resize(rows);
    for (std::size_t c = 0; c < static_cast<std::size_t>(columns); ++c) {
      for (std::size_t r = 0; r < rows; ++r) {
        column[r] = own[r * static_cast<std::size_t>(columns) + c];
      }
      weights_->append(column);
    }
  }
}

void HuggingFaceExport::commit() {
  weights_->sync();
  config_->sync();
  weights_->commit();
  config_->commit();
}

}  // namespace nqd::engine

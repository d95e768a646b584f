// Hugging Face checkpoints, as `nqd train` reads initial weights.
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "engine/io/hugging_face.h"
#include "engine/io/hugging_face_config.h"
#include "engine/io/safetensors.h"
#include "planner/config/config.h"
#include "planner/import/import.h"
#include "tests/fuzz/entries.h"
#include "tests/temporary_folder.h"

namespace nqd::fuzz {
namespace {

planner::ModelSpec model_of(const std::string& json) {
  planner::ImportRequest request;
  request.format = planner::ForeignFormat::kHuggingFace;
  request.files.emplace_back("config.json", json);
  const planner::ImportResult imported = planner::import_config(request);
  require(imported.exit_code == ExitCode::kOk, "the fuzzer's own model cannot be imported");
  return planner::load_config_text(imported.yaml, "imported.yaml").config.model;
}

// Those of corpus/safetensors.
const std::array<planner::ModelSpec, 2>& models() {
  static const std::array<planner::ModelSpec, 2> both = {
      model_of(R"({"model_type":"gpt2","n_layer":1,"n_embd":4,"n_head":2,"n_positions":4,
                   "vocab_size":5,"tie_word_embeddings":true})"),
      model_of(R"({"model_type":"llama","num_hidden_layers":1,"hidden_size":4,"vocab_size":5,
                   "num_attention_heads":2,"num_key_value_heads":1,"intermediate_size":6,
                   "max_position_embeddings":8,"tie_word_embeddings":false})")};
  return both;
}

// A file in memory, with a path.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view text) : descriptor_(::memfd_create("fuzz", 0)) {
    if (descriptor_ < 0) throw std::runtime_error("memfd_create failed");
    while (!text.empty()) {
      const ssize_t written = ::write(descriptor_, text.data(), text.size());
      if (written < 0) throw std::runtime_error("write failed");
      text.remove_prefix(static_cast<std::size_t>(written));
    }
  }
  ~MemoryFile() { ::close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::filesystem::path path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

// Whether the work ends well; if not, it says that the input is at fault.
bool ends_well(const std::function<void()>& work) {
  constexpr std::size_t kLongestMessage = 1000;
  try {
    work();
    return true;
  } catch (const Error& error) {
    const std::string message = error.what();
    require(error.exit_code() == ExitCode::kUsage, message);
    require(message.size() <= kLongestMessage, "a message of the input's length");
    return false;
  }
}

void read_all(const engine::HuggingFaceWeights& weights, const planner::ModelSpec& model) {
  std::vector<float> values;
  for (const planner::TensorSpec& tensor : planner::parameters(model)) {
    values.resize(static_cast<std::size_t>(tensor.elements()));
    weights.fill(tensor, 0, values);
  }
}

void read_tensors(const engine::SafetensorsFile& file, std::size_t size) {
  std::size_t bytes = 0;
  std::vector<float> values;
  for (const auto& [name, tensor] : file.tensors()) {
    bytes += file.bytes(tensor).size();
    if (!engine::float_type(tensor)) continue;
    values.resize(static_cast<std::size_t>(tensor.elements()));
    file.read(tensor, 0, 1, values);
  }
  require(bytes < size, "tensors larger than their file");
}

// Two files of weights that an index may name.
class IndexFolder {
 public:
  IndexFolder() {
    engine::SafetensorsWriter(folder_ / "a", {}, DType::kFloat32).commit();
    engine::SafetensorsWriter(folder_ / "b", {{"c", {0}}}, DType::kFloat32).commit();
  }
  const std::filesystem::path& path() const { return folder_.path(); }

 private:
  testing::TemporaryFolder folder_;
};

}  // namespace

void safetensors(std::string_view text) {
  const MemoryFile file(text);
  if (!ends_well([&] { read_tensors(engine::SafetensorsFile(file.path()), text.size()); })) return;
  for (const planner::ModelSpec& model : models()) {
    ends_well([&] { read_all(engine::HuggingFaceWeights(file.path(), model), model); });
  }
}

void weights_config(std::string_view text) {
  const MemoryFile file(text);
  for (const planner::ModelSpec& model : models()) {
    ends_well([&] { engine::check_hugging_face_config(file.path(), model); });
  }
}

void weights_index(std::string_view text) {
  static const IndexFolder folder;
  write_file(folder.path() / "model.safetensors.index.json", text);
  for (const planner::ModelSpec& model : models()) {
    ends_well([&] { engine::HuggingFaceWeights(folder.path(), model); });
  }
}

}  // namespace nqd::fuzz

// Weights of GPT-2-like and Llama-like models in and out of Hugging Face checkpoints.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/file.h"
#include "engine/io/hugging_face_names.h"
#include "engine/io/safetensors.h"
#include "planner/layout/layout.h"
#include "planner/spec.h"

namespace nqd::engine {

// The weights of one model, mapped and read on demand.
class HuggingFaceWeights {
 public:
  // `path`: a .safetensors file, or a folder with model.safetensors or, for weights in several
  // files, model.safetensors.index.json; a config.json beside them is checked. Names may lack the
  // prefix of the language model's class, as the published files of gpt2 do. Throws Error (kUsage):
  // those of SafetensorsFile, hugging_face_model and check_hugging_face_config; NQD2001 when a
  // folder has no weights; NQD2071 when a tensor of the model is missing, has another shape or
  // holds no floating-point numbers, or a tensor of the files has no place in the model.
  HuggingFaceWeights(const std::filesystem::path& path, const planner::ModelSpec& model);

  // Elements begin, begin + 1, … of a tensor of planner::parameters(model), as many as `out` has:
  // a UnitStore::Fill. Threads may call it at once.
  void fill(const planner::TensorSpec& tensor, std::int64_t begin, std::span<float> out) const;

 private:
  struct Source {
    HuggingFacePart part;
    const SafetensorsFile* file = nullptr;
    const SafetensorsTensor* tensor = nullptr;
  };
  void open(const std::filesystem::path& path);
  void open_index(const std::filesystem::path& index);
  Source find(const HuggingFacePart& part, std::string_view prefix) const;
  void refuse_strangers(const planner::ModelSpec& model) const;
  void check_tied_copy(const planner::ModelSpec& model) const;

  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, std::vector<Source>> sources_;  // by the name of nqd's tensor
};

// A checkpoint folder under construction: model.safetensors and config.json, both or neither.
class HuggingFaceExport {
 public:
  // Makes the folder and opens both files, so that an output that cannot be written is known before
  // the work starts (Error kUsage, NQD2002). `type` of the stored weights: float32, float16 or
  // bfloat16, the last two rounded to nearest. Throws as hugging_face_model.
  HuggingFaceExport(const std::filesystem::path& folder, const planner::ModelSpec& model,
                    DType type);

  // Every tensor of planner::parameters(model) once, whole, in that order. Throws Error (kFault,
  // NQD4003) when the disk is full.
  void append(const std::string& tensor, std::span<const float> values);
  // After the last.
  void commit();

 private:
  planner::ModelSpec model_;
  std::vector<planner::TensorSpec> tensors_;
  std::size_t next_ = 0;
  std::unique_ptr<SafetensorsWriter> weights_;
  std::unique_ptr<AtomicFile> config_;
};

}  // namespace nqd::engine

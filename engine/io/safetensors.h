// The safetensors file format (https://huggingface.co/docs/safetensors): a little-endian header
// length of 8 bytes, a JSON header {name: {dtype, shape, data_offsets: [begin, end]},
// __metadata__}, and the tensors' bytes, row-major and little-endian, without gaps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "base/file.h"
#include "base/mapped_file.h"

namespace nqd::engine {

// Of its JSON, as in the reference implementation.
inline constexpr std::uint64_t kMaxSafetensorsHeader = 100'000'000;

struct SafetensorsTensor {
  std::string dtype;  // "F32"
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;  // of its bytes, behind the header
  std::uint64_t end = 0;
  std::int64_t elements() const;
};

// "[4, 12]".
std::string shape_text(std::span<const std::int64_t> shape);

class SafetensorsFile {
 public:
  // Maps the file and checks its header. Throws Error (kUsage): NQD2001 when it cannot be read,
  // NQD2070 when it is damaged: truncated, header too large, no JSON, a name given twice, a dtype
  // that the format does not have, a size that is not that of the shape, tensors that overlap,
  // gaps.
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  const std::map<std::string, SafetensorsTensor, std::less<>>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  std::string_view bytes(const SafetensorsTensor& tensor) const;
  // Flat elements first, first + stride, … of a tensor of this file, as many as `out` has, as
  // float32. Precondition: dtype F32, F16 or BF16 (see float_type).
  void read(const SafetensorsTensor& tensor, std::int64_t first, std::int64_t stride,
            std::span<float> out) const;

 private:
  void read_header();
  void check_layout() const;

  std::filesystem::path path_;
  MappedFile file_;
  std::string_view data_;
  std::map<std::string, SafetensorsTensor, std::less<>> tensors_;
  std::map<std::string, std::string> metadata_;
};

// float32, float16 or bfloat16; nothing for the other types of the format.
std::optional<DType> float_type(const SafetensorsTensor& tensor);

// What stands before the values of a file: length and JSON, padded so that values are aligned.
// Float32 tensors of one dimension, by name and number of elements, in the order of their values.
std::string safetensors_header(const std::vector<std::pair<std::string, std::int64_t>>& tensors);

// Writes a file tensor by tensor: memory does not grow with the model. Under a temporary name until
// commit, as AtomicFile does, whose errors it has.
class SafetensorsWriter {
 public:
  struct Entry {
    std::string name;
    std::vector<std::int64_t> shape;
  };
  // The tensors in the order in which their values come. `type`: float32, float16 or bfloat16.
  SafetensorsWriter(const std::filesystem::path& path, const std::vector<Entry>& entries,
                    DType type);

  // The next values of the file, rounded to its type.
  void append(std::span<const float> values);
  void sync() { file_.sync(); }
  // Precondition: all values of all entries were appended.
  void commit();

 private:
  AtomicFile file_;
  DType type_;
  std::int64_t missing_ = 0;  // elements to come
  std::vector<std::byte> block_;
};

}  // namespace nqd::engine

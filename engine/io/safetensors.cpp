#include "engine/io/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <utility>

#include "base/error.h"
#include "planner/config/source.h"

namespace nqd::engine {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kLengthBytes = 8;
constexpr const char* kMetadata = "__metadata__";
constexpr std::size_t kShownBytes = 120;  // of a name or a parser's words in a message

struct TypeSize {
  std::string_view name;
  std::uint64_t bytes;
};
constexpr TypeSize kTypes[] = {{"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1},
                               {"I16", 2},  {"U16", 2}, {"F16", 2}, {"BF16", 2},    {"I32", 4},
                               {"U32", 4},  {"F32", 4}, {"I64", 8}, {"U64", 8},     {"F64", 8}};

std::string_view type_name(DType type) {
  switch (type) {
    case DType::kFloat32:
      return "F32";
    case DType::kFloat16:
      return "F16";
    case DType::kBFloat16:
      return "BF16";
    default:
      throw std::invalid_argument("safetensors are written as float32, float16 or bfloat16");
  }
}

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& why) {
  throw Error(ExitCode::kUsage, "NQD2070", path.string() + " is no safetensors file: " + why,
              "fetch or write the file again");
}

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& tensor,
                         const std::string& why) {
  throw Error(ExitCode::kUsage, "NQD2070",
              path.string() + ": tensor \"" + planner::printable(tensor, kShownBytes) + "\" " + why,
              "fetch or write the file again");
}

// The name that an object of the JSON has twice, whose first value a parser would lose.
class RepeatedKeys {
 public:
  bool operator()(int, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) open_.emplace_back();
    if (event == Json::parse_event_t::object_end) open_.pop_back();
    if (event == Json::parse_event_t::key) {
      const auto name = parsed.get<std::string>();
      if (!open_.back().insert(name).second && !first_) first_ = name;
    }
    return true;
  }
  const std::optional<std::string>& first() const { return first_; }

 private:
  std::vector<std::set<std::string>> open_;
  std::optional<std::string> first_;
};

std::uint64_t unsigned_of(const Json& value) {
  if (!value.is_number_unsigned()) throw std::invalid_argument("no unsigned number");
  return value.get<std::uint64_t>();
}

// Elements · bytes; nothing when that is no 63-bit number.
std::optional<std::uint64_t> bytes_of(std::span<const std::int64_t> shape, std::uint64_t each) {
  std::uint64_t bytes = each;
  const bool empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
  for (const std::int64_t extent : shape) {
    if (empty) return 0;
    const auto factor = static_cast<std::uint64_t>(extent);
    if (factor > std::numeric_limits<std::int64_t>::max() / bytes) return std::nullopt;
    bytes *= factor;
  }
  return bytes;
}

SafetensorsTensor parse_tensor(const std::filesystem::path& path, const std::string& name,
                               const Json& json) {
  SafetensorsTensor tensor;
  try {
    tensor.dtype = json.at("dtype").get<std::string>();
    const Json& shape = json.at("shape");
    if (!shape.is_array()) throw std::invalid_argument("shape");  // a number would be a list of one
    for (const Json& extent : shape) {
      const std::uint64_t value = unsigned_of(extent);
      if (value > std::numeric_limits<std::int64_t>::max()) throw std::invalid_argument("extent");
      tensor.shape.push_back(static_cast<std::int64_t>(value));
    }
    const Json& offsets = json.at("data_offsets");
    if (!offsets.is_array() || offsets.size() != 2) throw std::invalid_argument("data_offsets");
    tensor.begin = unsigned_of(offsets.at(0));
    tensor.end = unsigned_of(offsets.at(1));
  } catch (const std::exception&) {  // of nlohmann too
    refuse(path, name, "is not described by a dtype, a shape and two data_offsets");
  }
  return tensor;
}

std::uint64_t type_bytes(const std::filesystem::path& path, const std::string& name,
                         const SafetensorsTensor& tensor) {
  const auto* found = std::find_if(std::begin(kTypes), std::end(kTypes),
                                   [&](const TypeSize& type) { return type.name == tensor.dtype; });
  if (found == std::end(kTypes))
    refuse(path, name, "has the unknown dtype \"" + planner::printable(tensor.dtype) + "\"");
  return found->bytes;
}

template <typename T>
float widened(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  if constexpr (std::is_same_v<T, float>) {
    return value;
  } else {
    return to_float(value);
  }
}

template <typename T>
void read_strided(std::span<float> out, const char* from, std::int64_t stride) {
  // A tensor may begin at any byte, so its elements need not be aligned.
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = widened<T>(from + static_cast<std::int64_t>(i * sizeof(T)) * stride);
  }
}

void store(std::byte* to, float value, DType type) {
  if (type == DType::kFloat32) {
    std::memcpy(to, &value, sizeof value);
  } else if (type == DType::kBFloat16) {
    const BFloat16 narrow = to_bfloat16(value);
    std::memcpy(to, &narrow, sizeof narrow);
  } else {
    const Float16 narrow = to_float16(value);
    std::memcpy(to, &narrow, sizeof narrow);
  }
}

}  // namespace

std::int64_t SafetensorsTensor::elements() const {
  // With an extent of zero the others may be anything, their product too large for a number.
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return count;
}

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  }
  return text + "]";
}

std::optional<DType> float_type(const SafetensorsTensor& tensor) {
  for (const DType type : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    if (tensor.dtype == type_name(type)) return type;
  }
  return std::nullopt;
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : path_(path), file_(path, "give a .safetensors file, or the folder that holds one") {
  static_assert(std::endian::native == std::endian::little);
  read_header();
  check_layout();
}

void SafetensorsFile::read_header() {
  const std::string_view all = file_.bytes();
  if (all.size() < kLengthBytes) refuse(path_, "it has " + std::to_string(all.size()) + " bytes");
  std::uint64_t length = 0;
  std::memcpy(&length, all.data(), sizeof length);
  if (length > kMaxSafetensorsHeader) {
    refuse(path_, "its header would have " + std::to_string(length) + " bytes");
  }
  if (length > all.size() - kLengthBytes) {
    refuse(path_, "it ends inside its header of " + std::to_string(length) + " bytes");
  }
  data_ = all.substr(kLengthBytes + length);
  RepeatedKeys keys;
  Json header;
  try {
    header = Json::parse(all.substr(kLengthBytes, length), std::ref(keys));
  } catch (const Json::exception& failure) {
    refuse(path_, "its header is not JSON: " + planner::printable(failure.what(), kShownBytes));
  }
  if (!header.is_object()) refuse(path_, "its header is not a JSON object");
  if (keys.first())
    refuse(path_,
           "its header has \"" + planner::printable(*keys.first(), kShownBytes) + "\" twice");
  for (const auto& [name, value] : header.items()) {
    if (name != kMetadata) {
      tensors_.emplace(name, parse_tensor(path_, name, value));
      continue;
    }
    if (!value.is_object()) refuse(path_, "its __metadata__ are not an object");
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string()) refuse(path_, "its __metadata__ are not texts");
      metadata_.emplace(key, text.get<std::string>());
    }
  }
}

void SafetensorsFile::check_layout() const {
  std::vector<std::pair<const SafetensorsTensor*, const std::string*>> order;
  for (const auto& [name, tensor] : tensors_) {
    const auto bytes = bytes_of(tensor.shape, type_bytes(path_, name, tensor));
    if (tensor.begin > tensor.end || tensor.end > data_.size()) {
      refuse(path_, name,
             "lies at bytes " + std::to_string(tensor.begin) + " to " + std::to_string(tensor.end) +
                 " of " + std::to_string(data_.size()) + ": the file is truncated or damaged");
    }
    if (bytes != tensor.end - tensor.begin) {
      refuse(path_, name,
             "has " + std::to_string(tensor.end - tensor.begin) +
                 " bytes, which is not the size of " + tensor.dtype + " " +
                 shape_text(tensor.shape));
    }
    order.emplace_back(&tensor, &name);
  }
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first->begin, a.first->end) < std::pair(b.first->begin, b.first->end);
  });
  std::uint64_t end = 0;
  for (const auto& [tensor, name] : order) {
    if (tensor->begin < end) refuse(path_, *name, "overlaps another tensor");
    if (tensor->begin > end) refuse(path_, *name, "begins behind a gap");
    end = tensor->end;
  }
  if (end != data_.size()) {
    refuse(path_, std::to_string(data_.size() - end) + " bytes belong to no tensor");
  }
}

std::string_view SafetensorsFile::bytes(const SafetensorsTensor& tensor) const {
  return data_.substr(tensor.begin, tensor.end - tensor.begin);
}

void SafetensorsFile::read(const SafetensorsTensor& tensor, std::int64_t first, std::int64_t stride,
                           std::span<float> out) const {
  const std::optional<DType> type = float_type(tensor);
  if (!type) throw std::invalid_argument("a tensor of " + tensor.dtype + " holds no float32");
  const char* from =
      data_.data() + tensor.begin + first * static_cast<std::int64_t>(size_bytes(*type));
  switch (*type) {
    case DType::kBFloat16:
      return read_strided<BFloat16>(out, from, stride);
    case DType::kFloat16:
      return read_strided<Float16>(out, from, stride);
    default:
      return read_strided<float>(out, from, stride);
  }
}

namespace {

// Length, JSON and what aligns the values behind it.
std::string framed(const Json& header) {
  std::string text = header.dump();
  text.resize((text.size() + kLengthBytes - 1) / kLengthBytes * kLengthBytes, ' ');
  const std::uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + text;
}

Json entry_json(const SafetensorsTensor& tensor) {
  return {{"dtype", tensor.dtype},
          {"shape", tensor.shape},
          {"data_offsets", {tensor.begin, tensor.end}}};
}

}  // namespace

std::string safetensors_header(const std::vector<std::pair<std::string, std::int64_t>>& tensors) {
  Json header = {{kMetadata, {{"format", "nqd"}}}};
  std::uint64_t end = 0;
  for (const auto& [name, elements] : tensors) {
    const std::uint64_t begin = end;
    end += static_cast<std::uint64_t>(elements) * sizeof(float);
    header[name] = entry_json({std::string(type_name(DType::kFloat32)), {elements}, begin, end});
  }
  return framed(header);
}

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path,
                                     const std::vector<Entry>& entries, DType type)
    : file_(path), type_(type), block_(std::size_t{1} << 16) {
  // Transformers refuses a file that does not say which framework's layout it has.
  Json header = {{kMetadata, {{"format", "pt"}}}};
  std::uint64_t end = 0;
  for (const Entry& entry : entries) {
    SafetensorsTensor tensor{std::string(type_name(type)), entry.shape, end, 0};
    missing_ += tensor.elements();
    end += static_cast<std::uint64_t>(tensor.elements()) * size_bytes(type);
    tensor.end = end;
    header[entry.name] = entry_json(tensor);
  }
  file_.write(framed(header));
}

void SafetensorsWriter::append(std::span<const float> values) {
  const std::size_t each = size_bytes(type_);
  const std::size_t room = block_.size() / each;
  missing_ -= static_cast<std::int64_t>(values.size());
  if (missing_ < 0) throw std::logic_error("more values than the file's tensors have");
  while (!values.empty()) {
    const std::size_t count = std::min(values.size(), room);
    for (std::size_t i = 0; i < count; ++i) store(block_.data() + i * each, values[i], type_);
    file_.write({reinterpret_cast<const char*>(block_.data()), count * each});
    values = values.subspan(count);
  }
}

void SafetensorsWriter::commit() {
  if (missing_ != 0) throw std::logic_error("tensors of the file have no values");
  file_.commit();
}

}  // namespace nqd::engine

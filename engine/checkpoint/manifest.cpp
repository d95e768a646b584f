#include "engine/checkpoint/manifest.h"

#include <array>
#include <ctime>
#include <set>

namespace nqd::engine {

std::optional<std::int64_t> unix_seconds(const std::string& utc) {
  std::tm parts{};
  const char* const end = ::strptime(utc.c_str(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  if (end == nullptr || *end != '\0') return std::nullopt;
  return ::timegm(&parts);
}

std::string_view name(Quantity quantity) {
  constexpr std::array<std::string_view, kQuantities> kNames = {"weights", "moments.0", "moments.1",
                                                                "ema"};
  return kNames[static_cast<std::size_t>(quantity)];
}

void append_run(std::vector<Extent>& extents, std::int64_t begin, std::int64_t count) {
  if (count == 0) return;
  if (!extents.empty()) {
    Extent& last = extents.back();
    if (last.repeats == 1 && last.begin + last.count == begin) {
      last.count += count;
      last.stride = last.count;
      return;
    }
    const bool first_repeat = last.repeats == 1 && begin > last.begin + last.count;
    const std::int64_t stride = first_repeat ? begin - last.begin : last.stride;
    if (last.count == count && (first_repeat || begin == last.begin + last.repeats * stride)) {
      last.stride = stride;
      ++last.repeats;
      return;
    }
  }
  extents.push_back({begin, count, count, 1});
}

std::int64_t elements_of(std::span<const Extent> extents) {
  std::int64_t sum = 0;
  for (const Extent& extent : extents) sum += extent.elements();
  return sum;
}

std::vector<std::string> CheckpointFile::tensors() const {
  std::vector<std::string> names;
  std::set<std::string_view> known;
  for (const CheckpointPart& part : parts) {
    if (known.insert(part.tensor).second) names.push_back(part.tensor);
  }
  return names;
}

std::int64_t CheckpointFile::elements() const {
  std::int64_t sum = 0;
  for (const CheckpointPart& part : parts) sum += elements_of(part.extents);
  return sum;
}

std::int64_t CheckpointTensor::elements() const {
  std::int64_t product = 1;
  for (const std::int64_t extent : shape) product *= extent;
  return product;
}

}  // namespace nqd::engine

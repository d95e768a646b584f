#include "engine/data/series_format.h"

#include "base/error.h"
#include "engine/data/header_bytes.h"

namespace nqd::engine {
namespace {

constexpr std::string_view kMagic = "NQDSERIE";
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kDigestOffset = 32;
constexpr std::size_t kClassesOffset = 64;
// Steps times features, and classes: far above any, far below what overflows.
constexpr std::int64_t kMost = std::int64_t{1} << 31;

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& why) {
  throw Error(ExitCode::kUsage, "NQD2005",
              path.string() + " is not a usable file of time series: " + why,
              "write it again with `nqd data synthesize`");
}

void check_shape(const SeriesShape& shape, const std::filesystem::path& path) {
  const bool positive = shape.steps > 0 && shape.features > 0 && shape.classes > 0;
  if (positive && shape.steps < kMost / shape.features && shape.classes < kMost) return;
  refuse(path, std::to_string(shape.steps) + " time steps of " + std::to_string(shape.features) +
                   " features and " + std::to_string(shape.classes) +
                   " classes: out of range, or damaged");
}

}  // namespace

std::string encode_series_header(const SeriesHeader& header) {
  std::string text(kMagic);
  put(text, kVersion);
  put(text, static_cast<std::uint32_t>(header.shape.features));
  put(text, header.shape.steps);
  put(text, header.samples);
  put_digest(text, header.digest);
  put(text, header.shape.classes);
  text.resize(kSeriesHeaderBytes, '\0');
  return text;
}

SeriesHeader decode_series_header(std::string_view bytes, std::uint64_t file_bytes,
                                  const std::filesystem::path& path) {
  if (file_bytes == 0) refuse(path, "it is empty");
  if (!bytes.starts_with(kMagic)) refuse(path, "it does not begin with " + std::string(kMagic));
  if (bytes.size() < kSeriesHeaderBytes) {
    refuse(path, "truncated: the header needs " + std::to_string(kSeriesHeaderBytes) +
                     " bytes, the file has " + std::to_string(file_bytes));
  }
  if (const auto version = get<std::uint32_t>(bytes, 8); version != kVersion) {
    refuse(path, "format version " + std::to_string(version) + ", this nqd reads version " +
                     std::to_string(kVersion));
  }
  SeriesHeader header;
  header.shape.features = get<std::uint32_t>(bytes, 12);
  header.shape.steps = get<std::int64_t>(bytes, 16);
  header.samples = get<std::uint64_t>(bytes, 24);
  header.digest = get_digest(bytes, kDigestOffset);
  header.shape.classes = get<std::int64_t>(bytes, kClassesOffset);
  check_shape(header.shape, path);
  if (header.samples == 0) refuse(path, "it holds no sample");
  // Divided, not multiplied: a damaged count must not overflow into a plausible size.
  const std::uint64_t payload = file_bytes - kSeriesHeaderBytes;
  const std::uint64_t one = header.shape.sample_bytes();
  if (payload / one != header.samples || payload % one != 0) {
    refuse(path, "the header states " + std::to_string(header.samples) + " samples of " +
                     std::to_string(one) + " bytes, the file holds " + std::to_string(payload) +
                     " bytes after the header" +
                     (payload / one < header.samples ? " (truncated)" : ""));
  }
  return header;
}

SeriesFileWriter::SeriesFileWriter(const std::filesystem::path& path, const SeriesShape& shape)
    : file_(path) {
  header_.shape = shape;
  file_.write(std::string(kSeriesHeaderBytes, '\0'));
}

std::string_view SeriesFileWriter::append(std::span<const float> numbers, std::int32_t label) {
  sample_.assign(reinterpret_cast<const char*>(numbers.data()), numbers.size_bytes());
  put(sample_, label);
  file_.write(sample_);
  digest_.update(sample_);
  ++header_.samples;
  return sample_;
}

std::string SeriesFileWriter::finish() {
  header_.digest = digest_.hex();
  file_.overwrite(0, encode_series_header(header_));
  file_.sync();
  return header_.digest;
}

}  // namespace nqd::engine

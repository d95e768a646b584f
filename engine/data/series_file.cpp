#include "engine/data/series_file.h"

#include <cmath>
#include <cstring>
#include <stdexcept>

#include "base/error.h"
#include "base/mapped_file.h"

namespace nqd::engine {

struct SeriesFile::Impl {
  explicit Impl(const std::filesystem::path& file_path)
      : path(file_path),
        mapping(file_path, "check the path, or write the dataset with `nqd data synthesize`"),
        header(decode_series_header(mapping.bytes().substr(0, kSeriesHeaderBytes),
                                    mapping.bytes().size(), file_path)) {}

  std::string_view payload() const { return mapping.bytes().substr(kSeriesHeaderBytes); }
  const char* sample(std::uint64_t index) const {
    return payload().data() + index * header.shape.sample_bytes();
  }
  float number(std::uint64_t index, std::size_t i) const {
    float value = 0;
    std::memcpy(&value, sample(index) + 4 * i, sizeof value);
    return value;
  }
  std::int32_t label(std::uint64_t index) const {
    std::int32_t value = 0;
    std::memcpy(&value, sample(index) + 4 * header.shape.numbers(), sizeof value);
    return value;
  }

  void check_sample(std::uint64_t index) const {
    const std::int32_t found = label(index);
    if (found < 0 || found >= header.shape.classes) {
      refuse("sample " + std::to_string(index) + " is of class " + std::to_string(found) +
             ", but there are " + std::to_string(header.shape.classes) + " classes");
    }
    for (std::size_t i = 0; i < header.shape.numbers(); ++i) {
      if (std::isfinite(number(index, i))) continue;
      const auto features = static_cast<std::size_t>(header.shape.features);
      refuse("feature " + std::to_string(i % features) + " of time step " +
             std::to_string(i / features) + " of sample " + std::to_string(index) +
             " is not finite");
    }
  }

  [[noreturn]] void refuse(const std::string& why) const {
    throw Error(ExitCode::kUsage, "NQD2005", path.string() + ": " + why,
                "write it again with `nqd data synthesize`");
  }

  std::filesystem::path path;
  MappedFile mapping;
  SeriesHeader header;
};

SeriesFile::SeriesFile(const std::filesystem::path& path) : impl_(std::make_unique<Impl>(path)) {}
SeriesFile::~SeriesFile() = default;
SeriesFile::SeriesFile(SeriesFile&&) noexcept = default;
SeriesFile& SeriesFile::operator=(SeriesFile&&) noexcept = default;

const SeriesShape& SeriesFile::shape() const { return impl_->header.shape; }
const std::string& SeriesFile::digest() const { return impl_->header.digest; }
std::string_view SeriesFile::payload() const { return impl_->payload(); }
std::uint64_t SeriesFile::samples() const { return impl_->header.samples; }
std::int32_t SeriesFile::label(std::uint64_t index) const { return impl_->label(index); }

void SeriesFile::load(std::uint64_t index, std::span<std::byte> inputs,
                      std::span<std::int32_t> targets) const {
  if (index >= samples() || inputs.size() != 4 * shape().numbers() || targets.size() != 1) {
    throw std::out_of_range("SeriesFile::load: sample " + std::to_string(index) + " of " +
                            std::to_string(samples()));
  }
  impl_->check_sample(index);
  std::memcpy(inputs.data(), impl_->sample(index), inputs.size());
  targets[0] = impl_->label(index);
}

void SeriesFile::verify() const {
  const std::string found = sha256_hex(payload());
  if (found != digest()) {
    impl_->refuse("it has changed since it was written: its header states SHA-256 " + digest() +
                  ", its content has " + found);
  }
  for (std::uint64_t i = 0; i < samples(); ++i) impl_->check_sample(i);
}

}  // namespace nqd::engine

// A file of labelled time series, mapped read-only.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "engine/data/sample_source.h"
#include "engine/data/series_format.h"

namespace nqd::engine {

class SeriesFile final : public SampleSource {
 public:
  // Throws Error (kUsage): NQD2001 missing or unreadable, NQD2005 empty, no such file, truncated.
  // Reads the header alone. As to files that shrink while they are mapped, see TokenFile.
  explicit SeriesFile(const std::filesystem::path& path);
  ~SeriesFile() override;
  SeriesFile(SeriesFile&&) noexcept;
  SeriesFile& operator=(SeriesFile&&) noexcept;

  const SeriesShape& shape() const;
  const std::string& digest() const;  // SHA-256 of the payload as the header states it
  std::string_view payload() const;
  std::uint64_t samples() const override;
  std::int32_t label(std::uint64_t index) const;
  // A label that is no class, or a number that is not finite, is NQD2005.
  void load(std::uint64_t index, std::span<std::byte> inputs,
            std::span<std::int32_t> targets) const override;
  // Recomputes the digest and checks every number and label; throws Error NQD2005.
  void verify() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace nqd::engine

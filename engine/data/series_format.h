// The file format of labelled time series: a 128-byte header, then the samples, all little-endian.
//
//   offset  bytes  field
//        0      8  "NQDSERIE"
//        8      4  format version, 1
//       12      4  features: numbers a time step
//       16      8  time steps a sample
//       24      8  number of samples
//       32     32  SHA-256 of the payload
//       64      8  classes
//       72     56  zeros
//
// A sample is float32 [steps, features], then its class as int32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "base/file.h"

namespace nqd::engine {

inline constexpr std::size_t kSeriesHeaderBytes = 128;

// Of one sample.
struct SeriesShape {
  std::int64_t steps = 0;
  std::int64_t features = 0;
  std::int64_t classes = 0;
  std::size_t numbers() const { return static_cast<std::size_t>(steps * features); }
  std::size_t sample_bytes() const { return 4 * (numbers() + 1); }
  bool operator==(const SeriesShape&) const = default;
};

struct SeriesHeader {
  SeriesShape shape;
  std::uint64_t samples = 0;
  std::string digest;  // 64 hexadecimal digits
};

std::string encode_series_header(const SeriesHeader& header);

// `bytes` is the beginning of a file of `file_bytes` bytes. Throws Error (kUsage, NQD2005) that
// names `path` unless the header is whole, known, consistent and agrees with the file's size.
SeriesHeader decode_series_header(std::string_view bytes, std::uint64_t file_bytes,
                                  const std::filesystem::path& path);

// A file of series under construction. Errors are those of AtomicFile.
class SeriesFileWriter {
 public:
  SeriesFileWriter(const std::filesystem::path& path, const SeriesShape& shape);
  // `numbers` is shape.numbers() long, `label` in [0, classes). Returns the sample's bytes, valid
  // until the next call.
  std::string_view append(std::span<const float> numbers, std::int32_t label);
  std::uint64_t samples() const { return header_.samples; }
  // Completes the header and syncs, still under the temporary name. Returns the payload's SHA-256.
  std::string finish();
  // After finish().
  void commit() { file_.commit(); }

 private:
  AtomicFile file_;
  SeriesHeader header_;
  Sha256 digest_;
  std::string sample_;
};

}  // namespace nqd::engine

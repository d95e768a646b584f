// Sizes, counts and durations as people write and read them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace nqd {

inline constexpr double kGB = 1e9;
inline constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

// Parses a size: "4096", "4K", "64M", "1G" (binary, as nccl-tests reads them), "64 MiB", "1 GiB",
// "25 MB", "80 GB" (decimal). With a unit the nearest whole number of bytes; without one only whole
// numbers. Returns nothing when the text is not a size >= 0 that fits 63 bits.
std::optional<std::uint64_t> parse_bytes(std::string_view text);

// "1.75 GB (1.63 GiB)"; picks kB/MB/GB/TB by magnitude; below 1000 "812 B" alone.
std::string format_bytes(double bytes);
// The binary unit alone: "1.63 GiB".
std::string format_bytes_binary(double bytes);
// "1.50 s", "12.30 ms", "4.50 us", "0.25 ns", from 1e9 s on "1e+09 s"; exactly 0 is "0 s".
std::string format_seconds(double seconds);
// "124,439,808".
std::string format_count(std::uint64_t count);
// Short forms for people: "124.44 M", "7.00 B" (10^9), "12.35 k", "812".
std::string format_short(double value);

}  // namespace nqd

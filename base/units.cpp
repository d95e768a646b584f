#include "base/units.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>

namespace nqd {
namespace {

struct Unit {
  std::string_view suffix;
  double factor;
};
constexpr double kKi = 1024.0;
// A bare letter is binary, as nccl-tests reads it; "MB" is decimal, "MiB" binary.
constexpr std::array<Unit, 17> kUnits = {{{"", 1},
                                          {"B", 1},
                                          {"K", kKi},
                                          {"k", kKi},
                                          {"M", kKi* kKi},
                                          {"G", kKi* kKi* kKi},
                                          {"T", kKi* kKi* kKi* kKi},
                                          {"KiB", kKi},
                                          {"MiB", kKi* kKi},
                                          {"GiB", kKi* kKi* kKi},
                                          {"TiB", kKi* kKi* kKi* kKi},
                                          {"kB", 1e3},
                                          {"KB", 1e3},
                                          {"MB", 1e6},
                                          {"GB", 1e9},
                                          {"TB", 1e12},
                                          {"PB", 1e15}}};

template <typename... Args>
std::string printed(const char* pattern, Args... args) {
  std::array<char, 64> buffer{};
  std::snprintf(buffer.data(), buffer.size(), pattern, args...);
  return buffer.data();
}

std::string scaled(double value, double step, const std::array<const char*, 6>& names) {
  std::size_t i = 0;
  while (std::abs(value) >= step && i + 1 < names.size()) {
    value /= step;
    ++i;
  }
  if (i == 0) return printed("%.0f %s", value, names[0]);
  return printed("%.2f %s", value, names.at(i));
}

}  // namespace

std::optional<std::uint64_t> parse_bytes(std::string_view text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || !std::isfinite(value) || value < 0) return std::nullopt;
  std::string_view suffix(rest, static_cast<std::size_t>(end - rest));
  while (!suffix.empty() && suffix.front() == ' ') suffix.remove_prefix(1);
  for (const Unit& unit : kUnits) {
    if (suffix != unit.suffix) continue;
    const double bytes = value * unit.factor;
    if (bytes != std::floor(bytes) || bytes >= 9.2e18) return std::nullopt;
    return static_cast<std::uint64_t>(bytes);
  }
  return std::nullopt;
}

std::string format_bytes_binary(double bytes) {
  return scaled(bytes, 1024, {"B", "KiB", "MiB", "GiB", "TiB", "PiB"});
}

std::string format_bytes(double bytes) {
  const std::string decimal = scaled(bytes, 1000, {"B", "kB", "MB", "GB", "TB", "PB"});
  if (std::abs(bytes) < 1000) return decimal;
  return decimal + " (" + format_bytes_binary(bytes) + ")";
}

std::string format_seconds(double seconds) {
  const double size = std::abs(seconds);
  if (size == 0) return "0 s";
  if (size < 1e-3) return printed("%.2f us", seconds * 1e6);
  if (size < 1) return printed("%.2f ms", seconds * 1e3);
  return printed("%.2f s", seconds);
}

std::string format_count(std::uint64_t count) {
  std::string digits = std::to_string(count);
  for (auto i = static_cast<std::ptrdiff_t>(digits.size()) - 3; i > 0; i -= 3) {
    digits.insert(static_cast<std::size_t>(i), ",");
  }
  return digits;
}

std::string format_short(double value) {
  const double size = std::abs(value);
  if (size >= 1e12) return printed("%.2f T", value / 1e12);
  if (size >= 1e9) return printed("%.2f B", value / 1e9);
  if (size >= 1e6) return printed("%.2f M", value / 1e6);
  if (size >= 1e3) return printed("%.2f k", value / 1e3);
  return printed("%g", value);
}

}  // namespace nqd

#include "base/units.h"

#include <algorithm>
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
constexpr std::array<Unit, 18> kUnits = {{{"", 1},
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
                                          {"PiB", kKi* kKi* kKi* kKi* kKi},
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
  // 999.996 would print as 1000.00: two decimals decide where the next unit begins.
  while (std::abs(value) >= (i == 0 ? step : step - 0.005) && i + 1 < names.size()) {
    value /= step;
    ++i;
  }
  if (i == 0) return printed("%.0f %s", value, names[0]);
  // Of more digits than anyone reads: 1e300 has no end of them.
  if (std::abs(value) >= 1e9) return printed("%.4g %s", value, names.at(i));
  // printf rounds a tie to even (293.125 to 293.12); people round it up.
  return printed("%.2f %s", std::round(value * 100) / 100, names.at(i));
}

}  // namespace

std::optional<std::uint64_t> parse_bytes(std::string_view text) {
  if (text.starts_with('-')) return std::nullopt;
  const char* end = text.data() + text.size();
  double value = 0;
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || !std::isfinite(value)) return std::nullopt;
  std::string_view suffix(rest, static_cast<std::size_t>(end - rest));
  while (suffix.starts_with(' ')) suffix.remove_prefix(1);
  const auto* unit = std::find_if(kUnits.begin(), kUnits.end(),
                                  [&](const Unit& known) { return known.suffix == suffix; });
  if (unit == kUnits.end()) return std::nullopt;
  // Above 2^53 a double skips whole numbers, so plain digits are read as an integer.
  std::uint64_t whole = 0;
  const auto [integer_rest, integer_error] = std::from_chars(text.data(), end, whole);
  if (unit->factor == 1 && integer_rest == rest) {
    const bool fits = integer_error == std::errc{} && whole <= (~0ull >> 1);
    return fits ? std::optional(whole) : std::nullopt;
  }
  // 13.04 GiB is no whole number of bytes; what a person means is the nearest. Half a byte is not.
  const double bytes = value * unit->factor;
  if ((unit->factor == 1 && bytes != std::floor(bytes)) || bytes >= 0x1p63) return std::nullopt;
  return static_cast<std::uint64_t>(std::round(bytes));
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
  // The same rule as in scaled(): 0.999996 ms prints as 1.00 ms, not as 1000.00 us.
  if (size < 0.999995e-6) return printed("%.2f ns", seconds * 1e9);
  if (size < 0.999995e-3) return printed("%.2f us", seconds * 1e6);
  if (size < 0.999995) return printed("%.2f ms", seconds * 1e3);
  if (size >= 1e9) return printed("%.3g s", seconds);
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
  constexpr double kCarry = 0.999995;
  if (size >= 1e12 * kCarry) return printed("%.2f T", value / 1e12);
  if (size >= 1e9 * kCarry) return printed("%.2f B", value / 1e9);
  if (size >= 1e6 * kCarry) return printed("%.2f M", value / 1e6);
  if (size >= 1e3) return printed("%.2f k", value / 1e3);
  return printed("%g", value);
}

}  // namespace nqd

#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <span>
#include <string>

#include "base/units.h"
#include "planner/config/read_value.h"

namespace nqd::planner {
namespace {

struct Unit {
  std::string_view suffix;
  double factor;
};
constexpr std::array<Unit, 8> kFlopUnits = {{{"FLOP/s", 1},
                                             {"GFLOP/s", 1e9},
                                             {"TFLOP/s", 1e12},
                                             {"PFLOP/s", 1e15},
                                             {"GFLOPS", 1e9},
                                             {"TFLOPS", 1e12},
                                             {"PFLOPS", 1e15},
                                             {"FLOPS", 1}}};
constexpr std::array<Unit, 4> kTimeUnits = {{{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}}};
constexpr std::array<Unit, 3> kBitUnits = {
    {{"Mb/s", 1e6 / 8}, {"Gb/s", 1e9 / 8}, {"Tb/s", 1e12 / 8}}};

// A number, an optional space, one of the units.
std::optional<double> with_unit(std::string_view text, std::span<const Unit> units) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || !std::isfinite(value)) return std::nullopt;
  std::string_view suffix(rest, static_cast<std::size_t>(end - rest));
  if (suffix.starts_with(' ')) suffix.remove_prefix(1);
  for (const Unit& unit : units) {
    if (suffix == unit.suffix) return value * unit.factor;
  }
  return std::nullopt;
}

std::optional<double> bytes(std::string_view text) {
  const std::optional<std::uint64_t> size = parse_bytes(text);
  if (!size) return std::nullopt;
  return static_cast<double>(*size);
}

std::optional<double> bytes_per_second(std::string_view text) {
  if (const std::optional<double> bits = with_unit(text, kBitUnits)) return bits;
  if (!text.ends_with("/s")) return std::nullopt;
  return bytes(text.substr(0, text.size() - 2));
}

}  // namespace

std::optional<std::int64_t> parse_integer(std::string_view text) {
  const std::string_view digits = text.starts_with('-') ? text.substr(1) : text;
  // YAML 1.1 reads 010 as octal and YAML 1.2 as ten: neither reading is safe.
  if (digits.size() > 1 && digits.front() == '0') return std::nullopt;
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || rest != end) return std::nullopt;
  return value;
}

std::optional<double> parse_number(std::string_view text) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (text == ".inf" || text == ".Inf" || text == ".INF" || text == "+.inf") return kInfinity;
  if (text == "-.inf" || text == "-.Inf" || text == "-.INF") return -kInfinity;
  if (text == ".nan" || text == ".NaN" || text == ".NAN") {
    return std::numeric_limits<double>::quiet_NaN();
  }
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (rest != end || error == std::errc::invalid_argument || text.empty()) return std::nullopt;
  // from_chars does not say whether it was too large or too small; strtod does.
  if (error == std::errc::result_out_of_range)
    return std::strtod(std::string(text).c_str(), nullptr);
  return value;
}

std::optional<double> parse_quantity(Kind kind, std::string_view text) {
  switch (kind) {
    case Kind::kBytes:
      return bytes(text);
    case Kind::kBytesPerSecond:
      return bytes_per_second(text);
    case Kind::kFlops:
      return with_unit(text, kFlopUnits);
    case Kind::kSeconds:
      return with_unit(text, kTimeUnits);
    default:
      return std::nullopt;
  }
}

}  // namespace nqd::planner

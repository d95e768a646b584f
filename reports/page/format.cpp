#include "reports/page/format.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <ctime>

#include "base/units.h"

namespace nqd::reports {

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char letter : text) {
    switch (letter) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += letter;
    }
  }
  return out;
}

std::string fixed(double value, int digits) {
  if (!std::isfinite(value)) return "–";
  std::array<char, 400> text{};  // the longest double has 309 digits before the point
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

std::string short_bytes(double bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (std::abs(bytes) >= 1024 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  const int digits = bytes == std::trunc(bytes) ? 0 : std::abs(bytes) >= 100 ? 1 : 2;
  return fixed(bytes, digits) + " " + kUnits.at(unit);
}

std::string exact_bytes(double bytes, bool with_short) {
  // Counts of this size lie far below 2^53; a damaged document may hold anything.
  if (!(bytes >= 0 && bytes < 9e15) || bytes != std::trunc(bytes)) return short_bytes(bytes);
  const std::string exact = format_count(static_cast<std::uint64_t>(bytes)) + " B";
  return bytes < 1024 || !with_short ? exact : exact + " (" + short_bytes(bytes) + ")";
}

std::string shell_line(const std::vector<std::string>& argv) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,+@%";
  std::string line;
  for (const std::string& argument : argv) {
    if (!line.empty()) line += ' ';
    if (!argument.empty() && argument.find_first_not_of(kPlain) == std::string::npos) {
      line += argument;
      continue;
    }
    line += '\'';
    for (const char letter : argument) line += letter == '\'' ? "'\\''" : std::string(1, letter);
    line += '\'';
  }
  return line;
}

std::int64_t seconds_between(const std::string& start, const std::string& end) {
  std::tm from{};
  std::tm to{};
  if (::strptime(start.c_str(), "%Y-%m-%dT%H:%M:%SZ", &from) == nullptr ||
      ::strptime(end.c_str(), "%Y-%m-%dT%H:%M:%SZ", &to) == nullptr) {
    return -1;
  }
  return static_cast<std::int64_t>(::timegm(&to) - ::timegm(&from));
}

}  // namespace nqd::reports

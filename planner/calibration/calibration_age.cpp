#include "planner/calibration/calibration_age.h"

#include <algorithm>
#include <cctype>
#include <cstddef>

namespace nqd::planner {
namespace {

constexpr std::string_view kPattern = "0000-00-00T00:00:00Z";

bool is_time(std::string_view text) {
  for (std::size_t i = 0; i < kPattern.size(); ++i) {
    const bool digit = std::isdigit(static_cast<unsigned char>(text[i])) != 0;
    if (kPattern[i] == '0' ? !digit : text[i] != kPattern[i]) return false;
  }
  return true;
}

int number(std::string_view text, std::size_t from, std::size_t digits) {
  int value = 0;
  for (const char digit : text.substr(from, digits)) value = 10 * value + (digit - '0');
  return value;
}

std::time_t seconds_of(std::string_view text) {
  std::tm fields{};
  fields.tm_year = number(text, 0, 4) - 1900;
  fields.tm_mon = number(text, 5, 2) - 1;
  fields.tm_mday = number(text, 8, 2);
  fields.tm_hour = number(text, 11, 2);
  fields.tm_min = number(text, 14, 2);
  fields.tm_sec = number(text, 17, 2);
  return ::timegm(&fields);
}

std::string counted(std::time_t count, const std::string& unit) {
  return std::to_string(count) + " " + unit + (count == 1 ? "" : "s") + " old";
}

}  // namespace

std::string measured_at(std::string_view source) {
  std::string latest;
  for (std::size_t at = 0; at + kPattern.size() <= source.size(); ++at) {
    const std::string_view part = source.substr(at, kPattern.size());
    if (is_time(part)) latest = std::max(latest, std::string(part));
  }
  return latest;
}

std::string age_text(std::string_view source, std::time_t now) {
  const std::string when = measured_at(source);
  if (when.empty()) return {};
  const std::time_t age = now - seconds_of(when);
  if (age < 0) return {};
  constexpr std::time_t kHour = 3600;
  constexpr std::time_t kDay = 24 * kHour;
  if (age < kHour) return counted(age / 60, "minute");
  return age < 2 * kDay ? counted(age / kHour, "hour") : counted(age / kDay, "day");
}

}  // namespace nqd::planner

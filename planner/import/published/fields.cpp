#include "planner/import/published/fields.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

namespace nqd::planner::published {
namespace {

constexpr double kMaxCount = 16777216;  // 2^24: products of two are far from overflow

std::optional<double> parse_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return text;
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::optional<double> Fields::number(std::string_view path) const {
  const auto found = values_.find(path);
  if (found == values_.end()) return std::nullopt;
  std::optional<double> value;
  if (const auto* number = std::get_if<double>(&found->second)) value = *number;
  if (const auto* text = std::get_if<std::string>(&found->second)) value = parse_number(*text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

std::optional<double> Fields::positive(std::string_view path) const {
  const std::optional<double> value = number(path);
  return value && *value > 0 ? value : std::nullopt;
}

std::optional<std::int64_t> Fields::count(std::string_view path) const {
  const std::optional<double> value = number(path);
  if (!value || *value < 1 || *value > kMaxCount || *value != std::trunc(*value)) {
    return std::nullopt;
  }
  return static_cast<std::int64_t>(*value);
}

std::optional<bool> Fields::flag(std::string_view path) const {
  const auto found = values_.find(path);
  if (found == values_.end()) return std::nullopt;
  if (const auto* flag = std::get_if<bool>(&found->second)) return *flag;
  if (const auto* number = std::get_if<double>(&found->second)) return *number != 0;
  const std::string text = lower_case(std::get<std::string>(found->second));
  if (text == "true" || text == "yes" || text == "on" || text == "enabled" || text == "1")
    return true;
  if (text == "false" || text == "no" || text == "off" || text == "0") return false;
  return std::nullopt;
}

std::string Fields::text(std::string_view path) const {
  const auto found = values_.find(path);
  if (found == values_.end()) return {};
  if (const auto* text = std::get_if<std::string>(&found->second)) return *text;
  if (const auto* flag = std::get_if<bool>(&found->second)) return *flag ? "true" : "false";
  char digits[32];
  const auto end =
      std::to_chars(digits, digits + sizeof digits, std::get<double>(found->second)).ptr;
  return {digits, end};
}

std::string Fields::lower(std::string_view path) const { return lower_case(text(path)); }

}  // namespace nqd::planner::published

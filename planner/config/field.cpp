#include "planner/config/field.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <type_traits>

#include "planner/config/block_list.h"
#include "planner/config/source.h"
#include "planner/config/suggest.h"

namespace nqd::planner {
namespace {

template <typename T>
constexpr bool kIsEnum = std::is_enum_v<T>;

std::string in_quotes(const std::string& text) {
  return "\"" + printable(text, text.size() * 2 + 1) + "\"";
}

template <typename T>
std::string list_text(const std::vector<T>& values) {
  std::string text = "[";
  for (const T value : values) {
    if (text.size() > 1) text += ", ";
    text += number_text(static_cast<double>(value));
  }
  return text + "]";
}

template <typename T>
std::string text_of(const T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::is_same_v<T, std::int64_t>) {
    return std::to_string(value);
  } else if constexpr (std::is_same_v<T, double>) {
    return number_text(value);
  } else if constexpr (std::is_same_v<T, std::optional<std::int64_t>>) {
    return value ? std::to_string(*value) : std::string();
  } else if constexpr (std::is_same_v<T, std::vector<std::int64_t>> ||
                       std::is_same_v<T, std::vector<double>>) {
    return list_text(value);
  } else if constexpr (std::is_same_v<T, std::vector<CustomBlock>>) {
    return block_list_text(value);
  } else {
    return std::string(name(value));
  }
}

std::string range_text(const Range& range) {
  const bool low = std::isfinite(range.low);
  // An upper end that only guards against overflow is noise.
  const bool high = range.high < 1e9;
  if (low && high) {
    return (range.low_open ? " above " : " from ") + number_text(range.low) +
           (range.high_open ? " to below " : " to ") + number_text(range.high);
  }
  if (low) return (range.low_open ? " > " : " >= ") + number_text(range.low);
  return "";
}

std::string kind_text(const Field& field) {
  switch (field.kind) {
    case Kind::kInteger:
      return "an integer";
    case Kind::kNumber:
      return "a number";
    case Kind::kBoolean:
      return "true or false";
    case Kind::kText:
      return "text";
    case Kind::kChoice:
      return "one of " + joined({field.choices.begin(), field.choices.end()});
    case Kind::kIntegers:
      return "a list of integers, each";
    case Kind::kNumbers:
      return "a list of numbers, each";
    case Kind::kBlocks:
      return "a list of blocks such as {name: conv, count: 16, parameters: 36928}";
    case Kind::kBytes:
      return "a size such as 25 MB or 64 MiB";
    case Kind::kBytesPerSecond:
      return "a bandwidth such as 450 GB/s or 400 Gb/s";
    case Kind::kFlops:
      return "a rate such as 989 TFLOP/s";
    case Kind::kSeconds:
      return "a duration such as 3 us or 1e-6";
  }
  return "";
}

}  // namespace

bool applies_to(const Field& field, std::string_view family) {
  if (field.family.empty()) return true;
  for (std::string_view rest = field.family; !rest.empty();) {
    const std::size_t space = std::min(rest.find(' '), rest.size());
    if (rest.substr(0, space) == family) return true;
    rest.remove_prefix(std::min(space + 1, rest.size()));
  }
  return false;
}

const Field* find_field(std::string_view path) {
  const auto all = fields();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Field& field) { return field.path == path; });
  return found == all.end() ? nullptr : &*found;
}

const Section* find_section(std::string_view path) {
  const auto all = sections();
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const Section& section) { return section.path == path; });
  return found == all.end() ? nullptr : &*found;
}

const Field* shorthand_of(std::string_view path) {
  const Section* section = find_section(path);
  if (section == nullptr || section->shorthand.empty()) return nullptr;
  return find_field(std::string(path) + "." + std::string(section->shorthand));
}

std::string_view leaf_of(std::string_view path) { return path.substr(path.rfind('.') + 1); }

std::string_view parent_of(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
}

void store(const Field& field, Draft& draft, const Value& value) {
  std::visit(
      [&](auto* target) {
        using T = std::remove_pointer_t<decltype(target)>;
        if constexpr (kIsEnum<T>) {
          const auto found =
              std::find(field.choices.begin(), field.choices.end(), std::get<std::string>(value));
          *target = static_cast<T>(found - field.choices.begin());
        } else if constexpr (std::is_same_v<T, std::optional<std::int64_t>>) {
          *target = std::get<std::int64_t>(value);
        } else {
          *target = std::get<T>(value);
        }
      },
      field.slot(draft));
}

std::string value_text(const Field& field, Draft& draft) {
  return std::visit(
      [&](auto* value) {
        if constexpr (std::is_same_v<decltype(value), std::string*>) {
          return field.kind == Kind::kChoice ? *value : in_quotes(*value);
        } else {
          return text_of(*value);
        }
      },
      field.slot(draft));
}

std::string default_text(const Field& field) {
  if (!field.fallback.empty()) return std::string(field.fallback);
  Draft draft;
  return value_text(field, draft);
}

std::string expectation(const Field& field) {
  const bool ranged = field.kind == Kind::kInteger || field.kind == Kind::kNumber ||
                      field.kind == Kind::kIntegers || field.kind == Kind::kNumbers;
  return kind_text(field) + (ranged ? range_text(field.range) : "");
}

std::string number_text(double value) {
  std::array<char, 40> buffer{};
  // A plain whole number reads better than 8e+10 and is as exact.
  const bool whole = value == std::floor(value) && std::abs(value) < 1e16;
  const auto result = whole ? std::to_chars(buffer.data(), buffer.data() + buffer.size(),
                                            static_cast<std::int64_t>(value))
                            : std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return {buffer.data(), result.ptr};
}

}  // namespace nqd::planner

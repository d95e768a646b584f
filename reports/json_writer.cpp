#include "reports/json_writer.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>

namespace nqd::reports {
namespace {

// Bytes of the UTF-8 sequence at the start of `text`, or 0 when it is none (overlong forms and
// surrogates included).
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  const unsigned char second = byte(1);
  const bool overlong = (lead == 0xe0 && second < 0xa0) || (lead == 0xf0 && second < 0x90);
  const bool surrogate = lead == 0xed && second >= 0xa0;
  const bool beyond_unicode = lead == 0xf4 && second >= 0x90;
  return overlong || surrogate || beyond_unicode ? 0 : length;
}

void append_control(std::string& out, char letter) {
  constexpr std::string_view kHex = "0123456789abcdef";
  switch (letter) {
    case '\n':
      out += "\\n";
      return;
    case '\t':
      out += "\\t";
      return;
    case '\r':
      out += "\\r";
      return;
    default:
      out += "\\u00";
      out += kHex[static_cast<unsigned char>(letter) >> 4];
      out += kHex[static_cast<unsigned char>(letter) & 15];
  }
}

// Doubles hold every integer up to this one; such values print without a fraction.
constexpr double kExactIntegers = 9007199254740992.0;  // 2^53

}  // namespace

std::string json_number(double number) {
  if (!std::isfinite(number)) return "null";
  std::array<char, 32> digits{};
  const bool integral = std::abs(number) <= kExactIntegers && number == std::trunc(number);
  const auto end =
      integral ? std::to_chars(digits.begin(), digits.end(), static_cast<std::int64_t>(number))
               : std::to_chars(digits.begin(), digits.end(), number);
  return {digits.data(), static_cast<std::size_t>(end.ptr - digits.data())};
}

std::string json_string(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) {
      out += "\xef\xbf\xbd";
      text.remove_prefix(1);
      continue;
    }
    const char first = text.front();
    if (first == '"' || first == '\\') {
      out += '\\';
      out += first;
    } else if (static_cast<unsigned char>(first) < 0x20 || first == 0x7f) {
      append_control(out, first);
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
  return out + '"';
}

JsonWriter& JsonWriter::begin(char open, char close, Layout layout) {
  separate();
  const bool inside_inline = !levels_.empty() && levels_.back().layout == Layout::kInline;
  levels_.push_back({close, inside_inline ? Layout::kInline : layout});
  text_ += open;
  return *this;
}

JsonWriter& JsonWriter::end() {
  const Level level = levels_.back();
  levels_.pop_back();
  if (!level.empty && level.layout == Layout::kLines) break_line();
  text_ += level.close;
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  separate();
  text_ += json_string(name) + ": ";
  after_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::null() { return scalar("null"); }
JsonWriter& JsonWriter::value(bool flag) { return scalar(flag ? "true" : "false"); }
JsonWriter& JsonWriter::value(std::string_view text) { return scalar(json_string(text)); }

JsonWriter& JsonWriter::value(std::span<const double> numbers) {
  begin_array(Layout::kInline);
  for (const double number : numbers) value(number);
  return end();
}

std::string JsonWriter::take() {
  if (text_.find('\n') != std::string::npos) text_ += '\n';
  return std::move(text_);
}

JsonWriter& JsonWriter::scalar(std::string_view text) {
  separate();
  text_ += text;
  return *this;
}

void JsonWriter::separate() {
  if (std::exchange(after_key_, false) || levels_.empty()) return;
  Level& level = levels_.back();
  const bool first = std::exchange(level.empty, false);
  if (level.layout == Layout::kInline) {
    if (!first) text_ += ", ";
    return;
  }
  if (!first) text_ += ',';
  break_line();
}

void JsonWriter::break_line() {
  text_ += '\n';
  text_.append(2 * levels_.size(), ' ');
}

}  // namespace nqd::reports

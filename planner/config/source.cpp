#include "planner/config/source.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "base/units.h"

namespace nqd::planner {
namespace {

constexpr std::size_t kMaxTextBytes = std::size_t{1} << 20;
// A longer line is no help to a reader, and each finding would hold a copy of it.
constexpr std::size_t kMaxShownBytes = 1024;

std::size_t quoted_length(std::string_view rest) {
  const char quote = rest.front();
  for (std::size_t i = 1; i < rest.size(); ++i) {
    if (quote == '"' && rest[i] == '\\') {
      ++i;
    } else if (rest[i] == quote) {
      return i + 1;
    }
  }
  return rest.size();
}

// The extent of the YAML token that starts `rest`: a quoted text, or up to what ends a plain one.
std::size_t token_length(std::string_view rest) {
  if (rest.empty()) return 1;
  if (rest.front() == '"' || rest.front() == '\'') return quoted_length(rest);
  if (rest.front() == '[' || rest.front() == '{') return 1;
  std::size_t end = 0;
  while (end < rest.size()) {
    const char c = rest[end];
    const char next = end + 1 < rest.size() ? rest[end + 1] : ' ';
    if (c == ',' || c == ']' || c == '}' || (c == ':' && next == ' ')) break;
    if (c == ' ' && next == '#') break;
    ++end;
  }
  while (end > 0 && (rest[end - 1] == ' ' || rest[end - 1] == '\t')) --end;
  return std::max<std::size_t>(end, 1);
}

// Length of the well-formed UTF-8 sequence that starts `rest`, or 0.
std::size_t utf8_length(std::string_view rest) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(rest[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || rest.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  return length;
}

std::optional<std::size_t> first_bad_byte(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i]);
    const bool control = (c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7F;
    const std::size_t length = control ? 0 : utf8_length(text.substr(i));
    if (length == 0) return i;
    i += length;
  }
  return std::nullopt;
}

Place place_of(const Source& source, std::size_t offset) {
  const std::string_view before = std::string_view(source.text()).substr(0, offset);
  const auto lines = std::count(before.begin(), before.end(), '\n');
  const std::size_t start =
      before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  return {static_cast<int>(lines) + 1, static_cast<int>(offset - start) + 1};
}

std::optional<Diagnostic> check_bytes(const Source& source) {
  const std::optional<std::size_t> bad = first_bad_byte(source.text());
  if (!bad) return std::nullopt;
  std::array<char, 8> hex{};
  std::snprintf(hex.data(), hex.size(), "0x%02X",
                static_cast<unsigned>(static_cast<unsigned char>(source.text()[*bad])));
  Diagnostic diagnostic =
      source.error("NQD1026", place_of(source, *bad), "", "this is not UTF-8 text");
  diagnostic.got = std::string("byte ") + hex.data();
  diagnostic.hint = "save the file as UTF-8 text; is this the file that you meant?";
  // The line itself could garble a terminal.
  diagnostic.source_line.clear();
  return diagnostic;
}

std::optional<Diagnostic> check_tabs(const Source& source) {
  int first = 0;
  int count = 0;
  for (int number = 1; number <= source.line_count(); ++number) {
    const std::string_view line = source.line(number);
    const std::size_t text = line.find_first_not_of(" \t");
    if (text == std::string_view::npos || line[text] == '#') continue;
    if (line.substr(0, text).find('\t') == std::string_view::npos) continue;
    if (count++ == 0) first = number;
  }
  if (count == 0) return std::nullopt;
  const auto column = static_cast<int>(source.line(first).find('\t')) + 1;
  Diagnostic diagnostic = source.error(
      "NQD1018", {first, column}, "",
      count == 1 ? "this line is indented with a tab"
                 : std::to_string(count) + " lines are indented with tabs; this is the first");
  diagnostic.caret_length = 1;
  diagnostic.hint = "indent with spaces: YAML does not allow tabs there";
  return diagnostic;
}

}  // namespace

Source::Source(std::string name, std::string text)
    : name_(std::move(name)), text_(std::move(text)) {
  if (text_.starts_with("\xEF\xBB\xBF")) text_.erase(0, 3);
  line_starts_.push_back(0);
  for (std::size_t i = 0; i < text_.size(); ++i) {
    if (text_[i] == '\n') line_starts_.push_back(i + 1);
  }
}

std::string_view Source::line(int number) const {
  if (number < 1 || static_cast<std::size_t>(number) > line_starts_.size()) return {};
  const auto next = static_cast<std::size_t>(number);
  const std::size_t begin = line_starts_[next - 1];
  std::size_t end = next < line_starts_.size() ? line_starts_[next] - 1 : text_.size();
  if (end > begin && text_[end - 1] == '\r') --end;
  return std::string_view(text_).substr(begin, end - begin);
}

std::string Source::label(Place place) const {
  return place.line > 0 ? name_ + ":" + std::to_string(place.line) : name_;
}

Diagnostic Source::error(std::string code, Place place, std::string path,
                         std::string message) const {
  Diagnostic diagnostic;
  diagnostic.code = std::move(code);
  diagnostic.path = std::move(path);
  diagnostic.message = std::move(message);
  point(diagnostic, place);
  return diagnostic;
}

void Source::point(Diagnostic& diagnostic, Place place) const {
  diagnostic.where = {name_, place.line, place.column};
  const std::string_view text = line(place.line);
  if (text.size() <= kMaxShownBytes) diagnostic.source_line = text;
  const auto column = static_cast<std::size_t>(std::max(place.column - 1, 0));
  diagnostic.caret_length =
      column < text.size() ? static_cast<int>(token_length(text.substr(column))) : 1;
}

std::optional<Diagnostic> check_text(const Source& source) {
  if (source.text().size() > kMaxTextBytes) {
    Diagnostic diagnostic = source.error("NQD1024", {}, "", "the file is too large for a config");
    diagnostic.expected = "at most 1 MiB";
    diagnostic.got = format_bytes_binary(static_cast<double>(source.text().size()));
    diagnostic.hint = "is this the file that you meant?";
    return diagnostic;
  }
  if (std::optional<Diagnostic> bad = check_bytes(source)) return bad;
  return check_tabs(source);
}

std::string printable(std::string_view text, std::size_t limit) {
  std::string shown;
  for (const char c : text) {
    if (shown.size() >= limit) return shown + "...";
    if (c == '\n') {
      shown += "\\n";
    } else if (c == '\t') {
      shown += "\\t";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      shown += '?';
    } else {
      if (c == '"' || c == '\\') shown += '\\';
      shown += c;
    }
  }
  return shown;
}

}  // namespace nqd::planner

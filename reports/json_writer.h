// Writes JSON as it goes: the caller's order of fields is the document's order, numbers keep full
// precision, and a number that is not finite becomes null (JSON has no NaN).
#pragma once

#include <concepts>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nqd::reports {

// The shortest text that reads back as the same double; "null" when it is not finite.
std::string json_number(double number);
// `text` as a JSON string with its quotes.
std::string json_string(std::string_view text);

class JsonWriter {
 public:
  // kLines: one member a line, indented by two. kInline: the whole value on one line; everything
  // inside it too.
  enum class Layout { kLines, kInline };

  JsonWriter& begin_object(Layout layout = Layout::kLines) { return begin('{', '}', layout); }
  JsonWriter& begin_array(Layout layout = Layout::kLines) { return begin('[', ']', layout); }
  // Closes the innermost open object or array.
  JsonWriter& end();

  // Inside an object: the name of the value that is written next.
  JsonWriter& key(std::string_view name);

  JsonWriter& null();
  JsonWriter& value(bool flag);
  JsonWriter& value(double number) { return scalar(json_number(number)); }
  JsonWriter& value(std::integral auto number) { return scalar(std::to_string(number)); }
  // Bytes that are not UTF-8 become U+FFFD.
  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(std::span<const double> numbers);
  template <typename T>
  JsonWriter& value(const std::optional<T>& maybe) {
    return maybe ? value(*maybe) : null();
  }

  template <typename T>
  JsonWriter& field(std::string_view name, const T& content) {
    return key(name).value(content);
  }

  // The finished text, ending in a newline for kLines documents. Every begin has had its end.
  std::string take();

 private:
  struct Level {
    char close;
    Layout layout;
    bool empty = true;
  };
  JsonWriter& begin(char open, char close, Layout layout);
  JsonWriter& scalar(std::string_view text);
  void separate();  // comma, line break and indentation before the next item
  void break_line();

  std::string text_;
  std::vector<Level> levels_;
  bool after_key_ = false;
};

// The shortest text that reads back as the same double; "null" when it is not finite.
// A quantity whose record says "0 = not measured": absent then.
inline std::optional<double> measured(double value) {
  return value == 0 ? std::nullopt : std::optional(value);
}
// An empty text is an unknown one.
inline std::optional<std::string> known(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(text);
}

}  // namespace nqd::reports

// A value inside a parsed JSON document that knows where it stands, so that whatever is wrong is
// said by path: "rows[3].p50_s must be a number, it is a string".
#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nqd::reports {

// Every failure is an Error (kUsage, NQD2101) that names the file and the place.
class JsonField {
 public:
  // The root of `text`, which was read from `file`. A text that ends early is called truncated,
  // with its length; other damage is told with its byte position.
  static JsonField parse(const std::string& text, const std::filesystem::path& file);

  // A member that must be there (it may be null).
  JsonField at(std::string_view key) const;
  // A member that is there and not null.
  std::optional<JsonField> find(std::string_view key) const;
  std::vector<JsonField> items() const;                            // of an array
  std::vector<std::pair<std::string, JsonField>> members() const;  // of an object, in order
  bool is_object() const;
  bool is_text() const;

  std::string text() const;
  bool boolean() const;
  double number() const;
  double number_or(double if_null) const;  // null stands for a value that was not measured
  std::string text_or(std::string if_null) const;
  // A whole number within the range of Integer.
  template <std::integral Integer>
  Integer integer() const {
    return static_cast<Integer>(
        whole(std::numeric_limits<Integer>::min(), std::numeric_limits<Integer>::max()));
  }

  // Throws: "FILE: PATH " + what.
  [[noreturn]] void fail(const std::string& what, const std::string& hint = {}) const;

 private:
  struct Document;
  JsonField(std::shared_ptr<const Document> document, const void* value, std::string path)
      : document_(std::move(document)), value_(value), path_(std::move(path)) {}
  // Wide enough for both int64 and uint64.
  __extension__ using Wide = __int128;
  Wide whole(Wide lowest, Wide highest) const;
  [[noreturn]] void fail_type(std::string_view wanted) const;

  std::shared_ptr<const Document> document_;  // keeps value_ alive
  const void* value_;                         // the parser's own node
  std::string path_;                          // "rows[3].p50_s"; empty for the root
};

}  // namespace nqd::reports

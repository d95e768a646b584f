// Text of a shell script while it is expanded: every byte knows where it is written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/config/source.h"

namespace nqd::planner {

struct ShellText {
  std::string bytes;
  std::vector<std::uint32_t> offsets;  // into the script, one a byte

  void add(char byte, std::size_t offset) {
    bytes.push_back(byte);
    offsets.push_back(static_cast<std::uint32_t>(offset));
  }
  void add(const ShellText& other) {
    bytes += other.bytes;
    offsets.insert(offsets.end(), other.offsets.begin(), other.offsets.end());
  }
};

// A scalar has one element.
using ShellVariables = std::map<std::string, std::vector<ShellText>, std::less<>>;

// What went wrong, and where; ends the reading of a script.
struct ShellRefusal {
  std::size_t offset = 0;
  std::string message;
  std::string hint;
};

// Reads words of a script and expands them by `variables`.
class ShellExpander {
 public:
  explicit ShellExpander(std::string_view script) : script_(script) {}

  ShellVariables variables;

  // The word that starts at `offset`, which moves behind it. An unquoted expansion is cut at
  // blanks, so that a word may give none or several texts. Throws ShellRefusal.
  std::vector<ShellText> word(std::size_t& offset);
  // The right side of an assignment: not cut.
  ShellText value(std::size_t& offset);

  // Whether a word ends before this byte.
  static bool ends_word(char byte);

 private:
  // What a stretch of script gives: `texts`, the last of which grows until `open` is false.
  struct Output {
    std::vector<ShellText> texts;
    bool open = false;
    bool split = true;  // cut unquoted expansions

    void add(char byte, std::size_t offset);
    void touch();  // an empty text counts: ""
    void close() { open = false; }
  };

  void part(std::size_t& i, std::size_t end, Output& out, int depth);
  void single_quoted(std::size_t& i, std::size_t end, Output& out);
  void double_quoted(std::size_t& i, std::size_t end, Output& out, int depth);
  void dollar(std::size_t& i, std::size_t end, Output& out, bool quoted, int depth);
  void braced(std::size_t begin, std::size_t end, Output& out, bool quoted, int depth);
  void arithmetic(std::size_t begin, std::size_t end, Output& out, int depth);
  void stretch(std::size_t begin, std::size_t end, Output& out, bool quoted, int depth);
  void opaque(std::size_t begin, std::size_t end, Output& out);
  void insert(const std::vector<ShellText>& values, bool apart, bool quoted, Output& out);
  void spend(std::size_t bytes, std::size_t offset);
  std::size_t closing(std::size_t begin, std::size_t end, char opening, char closing_byte) const;

  std::string_view script_;
  std::size_t spent_ = 0;
};

// The value of an integer expression of + - * / % and parentheses; nothing when it is not one, is
// not defined or leaves 63 bits.
std::optional<std::int64_t> shell_arithmetic(std::string_view expression);

}  // namespace nqd::planner

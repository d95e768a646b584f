#include "planner/import/shell_text.h"

#include <algorithm>
#include <cctype>
#include <utility>

namespace nqd::planner {
namespace {

constexpr std::size_t kMaxExpandedBytes = std::size_t{4} << 20;
constexpr int kMaxDepth = 16;

bool is_name_byte(char byte) {
  return std::isalnum(static_cast<unsigned char>(byte)) != 0 || byte == '_';
}
bool is_blank(char byte) { return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r'; }

std::string string_of(std::int64_t value) { return std::to_string(value); }

// Recursive descent over + - * / % ( ); every step checks for overflow.
class Arithmetic {
 public:
  explicit Arithmetic(std::string_view text) : text_(text) {}

  std::optional<std::int64_t> result() {
    const std::optional<std::int64_t> value = sum(0);
    skip();
    return value && at_ == text_.size() ? value : std::nullopt;
  }

 private:
  void skip() {
    while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
  }
  bool eat(char byte) {
    skip();
    if (at_ >= text_.size() || text_[at_] != byte) return false;
    ++at_;
    return true;
  }

  std::optional<std::int64_t> sum(int depth) {
    std::optional<std::int64_t> left = product(depth);
    while (left) {
      const bool plus = eat('+');
      if (!plus && !eat('-')) break;
      const std::optional<std::int64_t> right = product(depth);
      std::int64_t value = 0;
      const bool bad = !right || (plus ? __builtin_add_overflow(*left, *right, &value)
                                       : __builtin_sub_overflow(*left, *right, &value));
      left = bad ? std::nullopt : std::optional(value);
    }
    return left;
  }

  std::optional<std::int64_t> product(int depth) {
    std::optional<std::int64_t> left = unary(depth);
    while (left) {
      skip();
      const char op = at_ < text_.size() ? text_[at_] : '\0';
      if (op != '*' && op != '/' && op != '%') break;
      ++at_;
      left = apply(op, *left, unary(depth));
    }
    return left;
  }

  static std::optional<std::int64_t> apply(char op, std::int64_t left,
                                           std::optional<std::int64_t> right) {
    std::int64_t value = 0;
    if (!right) return std::nullopt;
    if (op == '*') {
      if (__builtin_mul_overflow(left, *right, &value)) return std::nullopt;
      return value;
    }
    // -2^63 / -1 leaves 63 bits.
    if (*right <= 0) return std::nullopt;
    return op == '/' ? left / *right : left % *right;
  }

  std::optional<std::int64_t> unary(int depth) {
    if (depth > kMaxDepth) return std::nullopt;
    if (eat('(')) {
      const std::optional<std::int64_t> value = sum(depth + 1);
      return eat(')') ? value : std::nullopt;
    }
    skip();
    std::size_t end = at_;
    while (end < text_.size() && std::isdigit(static_cast<unsigned char>(text_[end])) != 0) ++end;
    // 18 digits fit 63 bits.
    if (end == at_ || end - at_ > 18) return std::nullopt;
    std::int64_t value = 0;
    for (; at_ < end; ++at_) value = value * 10 + (text_[at_] - '0');
    return value;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

std::optional<std::int64_t> shell_arithmetic(std::string_view expression) {
  return Arithmetic(expression).result();
}

void ShellExpander::Output::add(char byte, std::size_t offset) {
  touch();
  texts.back().add(byte, offset);
}

void ShellExpander::Output::touch() {
  if (!open) texts.emplace_back();
  open = true;
}

bool ShellExpander::ends_word(char byte) {
  return is_blank(byte) || std::string_view(";&|()<>").find(byte) != std::string_view::npos;
}

std::vector<ShellText> ShellExpander::word(std::size_t& offset) {
  Output out;
  while (offset < script_.size() && !ends_word(script_[offset])) {
    part(offset, script_.size(), out, 0);
  }
  return std::move(out.texts);
}

ShellText ShellExpander::value(std::size_t& offset) {
  Output out;
  out.split = false;
  out.touch();
  while (offset < script_.size() && !ends_word(script_[offset])) {
    part(offset, script_.size(), out, 0);
  }
  return std::move(out.texts.front());
}

void ShellExpander::spend(std::size_t bytes, std::size_t offset) {
  spent_ += bytes;
  if (spent_ > kMaxExpandedBytes) {
    throw ShellRefusal{offset, "the variables of this script expand to more than 4 MiB",
                       "is this the file that you meant?"};
  }
}

// One byte, quoted text or expansion.
void ShellExpander::part(std::size_t& i, std::size_t end, Output& out, int depth) {
  switch (script_[i]) {
    case '\\': {
      const bool windows = i + 2 < end && script_[i + 1] == '\r' && script_[i + 2] == '\n';
      if (windows || (i + 1 < end && script_[i + 1] == '\n')) {
        i += windows ? 3 : 2;
      } else if (i + 1 < end) {
        out.add(script_[i + 1], i + 1);
        i += 2;
      } else {
        ++i;
      }
      return;
    }
    case '\'':
      return single_quoted(i, end, out);
    case '"':
      return double_quoted(i, end, out, depth);
    case '$':
      return dollar(i, end, out, !out.split, depth);
    case '`': {
      const std::size_t close = std::min(script_.find('`', i + 1), end - 1);
      opaque(i, close + 1, out);
      i = close + 1;
      return;
    }
    default:
      out.add(script_[i], i);
      ++i;
  }
}

void ShellExpander::single_quoted(std::size_t& i, std::size_t end, Output& out) {
  const std::size_t close = script_.find('\'', i + 1);
  if (close == std::string_view::npos || close >= end) {
    throw ShellRefusal{i, "this quote is not closed", "close it with another '"};
  }
  out.touch();
  for (std::size_t k = i + 1; k < close; ++k) out.add(script_[k], k);
  i = close + 1;
}

void ShellExpander::double_quoted(std::size_t& i, std::size_t end, Output& out, int depth) {
  const std::size_t start = i++;
  out.touch();
  while (i < end && script_[i] != '"') {
    const char next = i + 1 < end ? script_[i + 1] : '\0';
    if (script_[i] == '\\' && next == '\n') {
      i += 2;
    } else if (script_[i] == '\\' && std::string_view("\\\"$`").find(next) != std::string::npos) {
      out.add(next, i + 1);
      i += 2;
    } else if (script_[i] == '$') {
      dollar(i, end, out, true, depth);
    } else {
      out.add(script_[i], i);
      ++i;
    }
  }
  if (i >= end) throw ShellRefusal{start, "this quote is not closed", "close it with another \""};
  ++i;
}

// The offset of the byte that closes what was opened before `begin`, or `end`.
std::size_t ShellExpander::closing(std::size_t begin, std::size_t end, char opening,
                                   char closing_byte) const {
  int depth = 1;
  char quote = '\0';
  for (std::size_t k = begin; k < end; ++k) {
    const char byte = script_[k];
    if (byte == '\\') {
      ++k;
    } else if (quote != '\0') {
      if (byte == quote) quote = '\0';
    } else if (byte == '\'' || byte == '"') {
      quote = byte;
    } else if (byte == opening) {
      ++depth;
    } else if (byte == closing_byte && --depth == 0) {
      return k;
    }
  }
  return end;
}

void ShellExpander::dollar(std::size_t& i, std::size_t end, Output& out, bool quoted, int depth) {
  const std::size_t start = i;
  const char next = i + 1 < end ? script_[i + 1] : '\0';
  if (depth > kMaxDepth) throw ShellRefusal{i, "expansions nested too deep", ""};
  // Looking for what closes it costs its length each time.
  if (next == '{' || next == '(') {
    const std::size_t close = closing(i + 2, end, next, next == '{' ? '}' : ')');
    spend(close - i, start);
    i = std::min(close + 1, end);
    const bool sum = next == '(' && start + 2 < close && script_[start + 2] == '(';
    if (close == end) {
      opaque(start, end, out);
    } else if (next == '{') {
      braced(start + 2, close, out, quoted, depth);
    } else if (sum && script_[close - 1] == ')') {
      arithmetic(start + 3, close - 1, out, depth);
    } else {
      opaque(start, close + 1, out);
    }
    return;
  }
  std::size_t name_end = i + 1;
  while (name_end < end && is_name_byte(script_[name_end])) ++name_end;
  const std::string_view name = script_.substr(i + 1, name_end - i - 1);
  const bool special = name.empty() && (next == '@' || next == '*');
  i = name_end + (special ? 1 : 0);
  // A script's own arguments are not known, and usually none.
  if (special) return;
  const auto found = variables.find(name);
  if (found == variables.end()) {
    opaque(start, i, out);
  } else if (!found->second.empty()) {
    insert({found->second.front()}, false, quoted, out);
  }
}

// The inside of ${...}: NAME, NAME[@], NAME[2], NAME:-default.
void ShellExpander::braced(std::size_t begin, std::size_t end, Output& out, bool quoted,
                           int depth) {
  std::size_t name_end = begin;
  while (name_end < end && is_name_byte(script_[name_end])) ++name_end;
  const auto found = variables.find(script_.substr(begin, name_end - begin));
  const std::string_view rest = script_.substr(name_end, end - name_end);
  const bool known = found != variables.end();
  if (rest == "[@]" || rest == "[*]") {
    // An array that nobody filled is empty.
    if (known) insert(found->second, true, quoted, out);
    return;
  }
  for (const std::string_view op : {":-", ":=", "-", "="}) {
    if (!rest.starts_with(op)) continue;
    const bool empty = !known || found->second.empty() ||
                       (op.front() == ':' && found->second.front().bytes.empty());
    if (empty) {
      stretch(name_end + op.size(), end, out, quoted, depth + 1);
    } else {
      insert({found->second.front()}, false, quoted, out);
    }
    return;
  }
  const bool indexed = rest.size() > 2 && rest.front() == '[' && rest.back() == ']';
  const auto index = indexed ? shell_arithmetic(rest.substr(1, rest.size() - 2)) : std::nullopt;
  const std::size_t element = static_cast<std::size_t>(index.value_or(0));
  if (!known || (!rest.empty() && !index) || element >= found->second.size()) {
    opaque(begin - 2, end + 1, out);
    return;
  }
  insert({found->second[element]}, false, quoted, out);
}

// The inside of $((...)); a name without $ is a variable too.
void ShellExpander::arithmetic(std::size_t begin, std::size_t end, Output& out, int depth) {
  Output inner;
  inner.split = false;
  stretch(begin, end, inner, true, depth + 1);
  std::string expression;
  const std::string text = inner.texts.empty() ? std::string() : inner.texts.front().bytes;
  for (std::size_t k = 0; k < text.size();) {
    std::size_t name_end = k;
    while (name_end < text.size() && is_name_byte(text[name_end])) ++name_end;
    const std::string name = text.substr(k, name_end - k);
    const auto found = variables.find(name);
    const bool scalar = found != variables.end() && found->second.size() == 1;
    spend(scalar ? found->second.front().bytes.size() : 1, begin);
    expression += scalar ? found->second.front().bytes : name.empty() ? text.substr(k, 1) : name;
    k = std::max(name_end, k + 1);
  }
  const std::optional<std::int64_t> value = shell_arithmetic(expression);
  if (!value) {
    opaque(begin - 3, std::min(end + 2, script_.size()), out);
    return;
  }
  for (const char byte : string_of(*value)) out.add(byte, begin - 3);
}

// Script inside an expansion: the default of ${NAME:-default}, the expression of $((...)).
void ShellExpander::stretch(std::size_t begin, std::size_t end, Output& out, bool quoted,
                            int depth) {
  const bool split = out.split;
  out.split = split && !quoted;
  for (std::size_t i = begin; i < end;) {
    if (out.split && is_blank(script_[i])) {
      out.close();
      ++i;
    } else {
      part(i, end, out, depth);
    }
  }
  out.split = split;
}

void ShellExpander::opaque(std::size_t begin, std::size_t end, Output& out) {
  spend(end - begin, begin);
  for (std::size_t k = begin; k < end; ++k) out.add(script_[k], k);
}

// `apart`: the elements of an array, each a word of its own.
void ShellExpander::insert(const std::vector<ShellText>& values, bool apart, bool quoted,
                           Output& out) {
  bool first = true;
  for (const ShellText& value : values) {
    spend(value.bytes.size() + 1, value.offsets.empty() ? 0 : value.offsets.front());
    if (!first) {
      if (apart && out.split) {
        out.close();
      } else {
        out.add(' ', value.offsets.empty() ? 0 : value.offsets.front());
      }
    }
    first = false;
    if (quoted) out.touch();
    for (std::size_t k = 0; k < value.bytes.size(); ++k) {
      if (!quoted && is_blank(value.bytes[k])) {
        out.close();
      } else {
        out.add(value.bytes[k], value.offsets[k]);
      }
    }
  }
}

}  // namespace nqd::planner

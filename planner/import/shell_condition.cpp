#include "planner/import/shell_condition.h"

#include <cstdint>
#include <optional>
#include <string>

#include "planner/config/read_value.h"

namespace nqd::planner {
namespace {

Answer negate(Answer answer) {
  if (answer == Answer::kUnknown) return answer;
  return answer == Answer::kYes ? Answer::kNo : Answer::kYes;
}
Answer answer_of(bool yes) { return yes ? Answer::kYes : Answer::kNo; }

// A variable that the script never sets reads as an empty text.
std::string_view value_of(std::string_view text) {
  return text.starts_with('$') && !text.starts_with("$(") ? std::string_view() : text;
}

// `a = b`, `-n x`, `1 -lt 2`; unknown for anything else.
Answer evaluate(const std::vector<std::string_view>& words) {
  if (words.size() == 2 && (words[0] == "-n" || words[0] == "-z")) {
    const std::string_view value = value_of(words[1]);
    if (is_unknown(value)) return Answer::kUnknown;
    return answer_of(value.empty() == (words[0] == "-z"));
  }
  if (words.size() != 3) return Answer::kUnknown;
  const std::string_view left = value_of(words[0]);
  const std::string_view right = value_of(words[2]);
  const std::string_view op = words[1];
  if (is_unknown(left) || is_unknown(right)) return Answer::kUnknown;
  if (op == "=" || op == "==") return answer_of(left == right);
  if (op == "!=") return answer_of(left != right);
  const std::optional<std::int64_t> a = parse_integer(left);
  const std::optional<std::int64_t> b = parse_integer(right);
  if (!a || !b) return Answer::kUnknown;
  if (op == "-eq") return answer_of(*a == *b);
  if (op == "-ne") return answer_of(*a != *b);
  if (op == "-lt") return answer_of(*a < *b);
  if (op == "-le") return answer_of(*a <= *b);
  if (op == "-gt") return answer_of(*a > *b);
  if (op == "-ge") return answer_of(*a >= *b);
  return Answer::kUnknown;
}

}  // namespace

bool is_unknown(std::string_view text) { return text.find_first_of("$`") != std::string::npos; }

Answer evaluate(const std::vector<ShellWord>& command) {
  std::vector<std::string_view> words;
  bool inverted = false;
  for (const ShellWord& word : command) {
    const std::string& text = word.text;
    if (text == "!") inverted = !inverted;
    if (text == "!" || text == "[" || text == "[[" || text == "]" || text == "]]") continue;
    if (text != "test") words.push_back(text);
  }
  const Answer answer = evaluate(words);
  return inverted ? negate(answer) : answer;
}

Answer both(Answer a, Answer b) {
  if (a == Answer::kNo || b == Answer::kNo) return Answer::kNo;
  return a == Answer::kYes && b == Answer::kYes ? Answer::kYes : Answer::kUnknown;
}
Answer either(Answer a, Answer b) { return negate(both(negate(a), negate(b))); }

}  // namespace nqd::planner

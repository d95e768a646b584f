#include "planner/import/shell.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <string_view>
#include <utility>

#include "planner/config/read_value.h"
#include "planner/import/foreign_tree.h"
#include "planner/import/shell_condition.h"
#include "planner/import/shell_text.h"

namespace nqd::planner {
namespace {

// `if`, `case`: which of its parts is read.
struct Block {
  bool is_case = false;
  bool outer_active = true;
  bool taken = false;  // a branch has been read: the others are not
  bool in_condition = false;
  Answer condition = Answer::kUnknown;
  char join = '\0';         // what stands before the next piece of the condition: '&', '|'
  std::string subject;      // of a case
  bool in_pattern = false;  // of a case: up to `)`
  Place place;
};

class ScriptReader {
 public:
  ScriptReader(const Source& source, std::vector<Diagnostic>& diagnostics)
      : source_(source),
        script_(source.text()),
        diagnostics_(diagnostics),
        expander_(source.text()) {
    for (int number = 1; number <= source.line_count(); ++number) {
      line_starts_.push_back(
          static_cast<std::size_t>(source.line(number).data() - source.text().data()));
    }
  }

  std::vector<ShellCommand> read() {
    try {
      while (at_ < script_.size()) step();
      end_command('\n');
    } catch (const ShellRefusal& refusal) {
      Diagnostic diagnostic =
          source_.error("NQD2301", place_of(refusal.offset), "", refusal.message);
      diagnostic.hint = refusal.hint;
      diagnostics_.push_back(std::move(diagnostic));
    }
    return std::move(commands_);
  }

 private:
  Place place_of(std::size_t offset) const {
    const auto next = std::upper_bound(line_starts_.begin(), line_starts_.end(), offset);
    const auto line = std::max<std::ptrdiff_t>(next - line_starts_.begin(), 1);
    const std::size_t start = line_starts_[static_cast<std::size_t>(line) - 1];
    return {static_cast<int>(line), static_cast<int>(offset - start) + 1};
  }

  void step() {
    const char byte = script_[at_];
    if (byte == ' ' || byte == '\t' || byte == '\r') {
      ++at_;
    } else if (byte == '#') {
      comment();
    } else if (byte == '<' || byte == '>') {
      redirection();
    } else if (byte == '\n' || byte == ';' || byte == '&' || byte == '|' || byte == '(' ||
               byte == ')') {
      separator(byte);
    } else {
      word();
    }
  }

  void comment() {
    const std::size_t end = std::min(script_.find('\n', at_), script_.size());
    const std::string_view text = script_.substr(at_, end - at_);
    if (text.starts_with("#SBATCH") && words_.empty()) {
      // Its words are read as those of a command.
      words_.push_back({"#SBATCH", place_of(at_)});
      at_ += 7;
    } else {
      at_ = end;
    }
  }

  // `> file`, `2>&1`, `<<EOF`: its target is no argument.
  void redirection() {
    const bool here_document =
        script_.substr(at_).starts_with("<<") && !script_.substr(at_).starts_with("<<<");
    while (at_ < script_.size() &&
           std::string_view("<>&-0123456789").find(script_[at_]) != std::string_view::npos) {
      ++at_;
    }
    while (at_ < script_.size() && (script_[at_] == ' ' || script_[at_] == '\t')) ++at_;
    const std::vector<ShellText> target = expander_.word(at_);
    if (here_document && !target.empty()) here_documents_.push_back(target.front().bytes);
  }

  void skip_here_documents() {
    for (const std::string& mark : here_documents_) {
      while (at_ < script_.size()) {
        const std::size_t end = std::min(script_.find('\n', at_), script_.size());
        std::string_view line = script_.substr(at_, end - at_);
        at_ = std::min(end + 1, script_.size());
        while (line.starts_with('\t')) line.remove_prefix(1);
        if (line == mark) break;
      }
    }
    here_documents_.clear();
  }

  void separator(char byte) {
    ++at_;
    const bool twice = at_ < script_.size() && script_[at_] == byte;
    if (twice && byte != '(' && byte != ')' && byte != '\n') ++at_;
    // `case WORD in PATTERN)` on one line.
    if (byte == ')') begin_case();
    if (byte == ')' && !blocks_.empty() && blocks_.back().in_pattern) {
      choose_pattern();
      return;
    }
    if (byte == '|' && !blocks_.empty() && blocks_.back().in_pattern) return;
    end_command(byte);
    if (byte == ';' && twice && !blocks_.empty() && blocks_.back().is_case) {
      blocks_.back().in_pattern = true;
      active_ = false;
    }
    if (byte == '\n') skip_here_documents();
  }

  // NAME=, NAME+=, at the start of a command or behind export and its like.
  bool assignment() {
    const bool declares = !words_.empty() && std::find(kDeclarations.begin(), kDeclarations.end(),
                                                       words_.front().text) != kDeclarations.end();
    if (!words_.empty() && !declares) return false;
    std::size_t end = at_;
    while (end < script_.size() &&
           (std::isalnum(static_cast<unsigned char>(script_[end])) != 0 || script_[end] == '_')) {
      ++end;
    }
    if (end == at_ || std::isdigit(static_cast<unsigned char>(script_[at_])) != 0) return false;
    const bool append = script_.substr(end).starts_with("+=");
    if (!append && !script_.substr(end).starts_with("=")) return false;
    const std::string name(script_.substr(at_, end - at_));
    at_ = end + (append ? 2 : 1);
    std::vector<ShellText> values;
    const bool array = at_ < script_.size() && script_[at_] == '(';
    if (array) {
      values = array_values();
    } else {
      values.push_back(expander_.value(at_));
    }
    if (active_) assign(name, std::move(values), append, array);
    return true;
  }

  std::vector<ShellText> array_values() {
    const std::size_t start = at_++;
    std::vector<ShellText> values;
    while (at_ < script_.size() && script_[at_] != ')') {
      if (script_[at_] == '#') {
        at_ = std::min(script_.find('\n', at_), script_.size());
      } else if (ShellExpander::ends_word(script_[at_])) {
        ++at_;
      } else {
        for (ShellText& text : expander_.word(at_)) values.push_back(std::move(text));
      }
    }
    if (at_ >= script_.size()) throw ShellRefusal{start, "this ( is not closed", "close it with )"};
    ++at_;
    return values;
  }

  void assign(const std::string& name, std::vector<ShellText> values, bool append, bool array) {
    std::vector<ShellText>& variable = expander_.variables[name];
    if (!append) {
      variable = std::move(values);
    } else if (array) {
      std::move(values.begin(), values.end(), std::back_inserter(variable));
    } else {
      if (variable.empty()) variable.emplace_back();
      variable.front().add(values.front());
    }
  }

  void word() {
    if (assignment()) return;
    const std::size_t start = at_;
    std::vector<ShellText> texts = expander_.word(at_);
    // The number of a redirection: 2>&1.
    const bool redirects = at_ < script_.size() && (script_[at_] == '>' || script_[at_] == '<');
    if (redirects && texts.size() == 1 && parse_integer(texts.front().bytes)) return;
    for (ShellText& text : texts) {
      const std::size_t offset = text.offsets.empty() ? start : text.offsets.front();
      add_word(std::move(text), offset);
    }
    // A byte that starts no word and ends none cannot be: each call moves on.
    if (at_ == start) ++at_;
    if (words_.size() == 1) keyword();
  }

  // Arguments inside quotes become words of their own.
  void add_word(ShellText text, std::size_t offset) {
    const bool arguments =
        text.bytes.find(" --") != std::string::npos ||
        text.bytes.find("\n--") != std::string::npos ||
        (text.bytes.starts_with("--") && text.bytes.find(' ') < text.bytes.find('='));
    if (!arguments || text.bytes.find_first_of(" \n\t") == std::string::npos) {
      words_.push_back({std::move(text.bytes), place_of(offset)});
      return;
    }
    std::size_t i = 0;
    while (i < text.bytes.size()) {
      i = std::min(text.bytes.find_first_not_of(" \n\t\r", i), text.bytes.size());
      const std::size_t end = std::min(text.bytes.find_first_of(" \n\t\r", i), text.bytes.size());
      if (end > i) words_.push_back({text.bytes.substr(i, end - i), place_of(text.offsets[i])});
      i = end;
    }
  }

  // A word that begins a command and is part of the language.
  void keyword() {
    const std::string word = words_.front().text;
    if (word == "if") {
      open_block(words_.front().place);
    } else if (word == "elif" && in_if()) {
      begin_condition(blocks_.back());
      words_.clear();
    } else if (word == "then" && in_if()) {
      begin_branch(blocks_.back());
    } else if (word == "else" && in_if()) {
      Block& block = blocks_.back();
      active_ = block.outer_active && !block.taken;
      block.taken = true;
      words_.clear();
    } else if ((word == "fi" && in_if()) || (word == "esac" && in_case())) {
      active_ = blocks_.back().outer_active;
      blocks_.pop_back();
      words_.clear();
    } else if (word == "do" || word == "done" || word == "while" || word == "until" ||
               word == "{" || word == "}" || word == "then" || word == "else") {
      words_.clear();
    } else if (in_case() && blocks_.back().in_pattern) {
      patterns_.push_back(word);
      words_.clear();
    }
  }

  bool in_if() const { return !blocks_.empty() && !blocks_.back().is_case; }
  bool in_case() const { return !blocks_.empty() && blocks_.back().is_case; }

  void open_block(Place place) {
    if (blocks_.size() >= kMaxBlocks) {
      throw ShellRefusal{at_, "conditions nested too deep", ""};
    }
    Block block;
    block.outer_active = active_;
    block.place = place;
    blocks_.push_back(std::move(block));
    begin_condition(blocks_.back());
    words_.clear();
  }

  void begin_condition(Block& block) {
    block.in_condition = true;
    block.condition = Answer::kUnknown;
    block.join = '\0';
    active_ = false;
  }

  void begin_branch(Block& block) {
    block.in_condition = false;
    const bool unknown = block.condition == Answer::kUnknown && block.outer_active && !block.taken;
    if (unknown) {
      warn(block.place,
           "whether this condition holds is known only when the script runs: its "
           "first branch is read");
    }
    active_ = block.outer_active && !block.taken && block.condition != Answer::kNo;
    if (block.condition != Answer::kNo) block.taken = true;
    words_.clear();
  }

  void warn(Place place, std::string message) {
    if (!has_room(source_, diagnostics_)) return;
    Diagnostic diagnostic = source_.error("NQD2316", place, "", std::move(message));
    diagnostic.severity = Severity::kWarning;
    diagnostics_.push_back(std::move(diagnostic));
  }

  void extend_condition(Block& block, char byte) {
    const Answer piece = evaluate(words_);
    if (block.join == '|') {
      block.condition = either(block.condition, piece);
    } else if (block.join == '&') {
      block.condition = both(block.condition, piece);
    } else {
      block.condition = piece;
    }
    block.join = byte;
  }

  // `case WORD in`
  bool begin_case() {
    if (words_.size() < 3 || words_[0].text != "case" || words_[2].text != "in") return false;
    if (blocks_.size() >= kMaxBlocks) throw ShellRefusal{at_, "conditions nested too deep", ""};
    Block block;
    block.is_case = true;
    block.outer_active = active_;
    block.subject = words_[1].text;
    block.in_pattern = true;
    block.place = words_.front().place;
    for (std::size_t i = 3; i < words_.size(); ++i) patterns_.push_back(words_[i].text);
    blocks_.push_back(std::move(block));
    active_ = false;
    words_.clear();
    return true;
  }

  void choose_pattern() {
    Block& block = blocks_.back();
    for (const ShellWord& word : words_) patterns_.push_back(word.text);
    words_.clear();
    const bool unknown = is_unknown(block.subject);
    const bool fits = std::any_of(patterns_.begin(), patterns_.end(), [&](const std::string& p) {
      return p == "*" || unknown || p == block.subject;
    });
    if (unknown && fits && !block.taken && block.outer_active) {
      warn(block.place,
           "which branch is run is known only when the script runs: its first is read");
    }
    active_ = block.outer_active && !block.taken && fits;
    if (fits) block.taken = true;
    block.in_pattern = false;
    patterns_.clear();
  }

  void end_command(char byte) {
    if (words_.empty()) return;
    Block* block = blocks_.empty() ? nullptr : &blocks_.back();
    if (block != nullptr && block->in_condition) {
      extend_condition(*block, byte);
    } else if (!begin_case() && active_) {
      const std::string& first = words_.front().text;
      if ((first == "source" || first == ".") && words_.size() > 1) {
        warn(words_.front().place,
             "the sourced file is not read: give it before this one, as "
             "`nqd import " +
                 printable(words_[1].text) + " ...`");
      }
      commands_.push_back({std::move(words_)});
    }
    words_.clear();
  }

  static constexpr std::array<std::string_view, 5> kDeclarations = {"export", "declare", "local",
                                                                    "readonly", "typeset"};
  static constexpr std::size_t kMaxBlocks = 64;

  const Source& source_;
  std::string_view script_;
  std::vector<Diagnostic>& diagnostics_;
  ShellExpander expander_;
  std::vector<std::size_t> line_starts_;
  std::size_t at_ = 0;
  bool active_ = true;
  std::vector<ShellWord> words_;
  std::vector<std::string> patterns_;
  std::vector<Block> blocks_;
  std::vector<std::string> here_documents_;
  std::vector<ShellCommand> commands_;
};

}  // namespace

std::vector<ShellCommand> read_script(const Source& source, std::vector<Diagnostic>& diagnostics) {
  if (std::optional<Diagnostic> problem = check_foreign_text(source)) {
    diagnostics.push_back(std::move(*problem));
    return {};
  }
  return ScriptReader(source, diagnostics).read();
}

}  // namespace nqd::planner

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "planner/config/read_value.h"
#include "planner/import/foreign_tree.h"

namespace nqd::planner {
namespace {

// Positions of tokens in a JSON text. The library's events come in document order without places;
// between two tokens stand only blanks and structural characters, so that each token is the next
// text with its first character.
class Cursor {
 public:
  explicit Cursor(const Source& source) : text_(source.text()) {}

  // Moves past the next token that starts with one of `starts`; gives its place.
  Place next(std::string_view starts) {
    move_to(std::min(text_.find_first_of(starts, offset_), text_.size()));
    const Place place = here();
    move_to(end_of_token(offset_));
    return place;
  }
  Place at(std::size_t offset) {
    offset_ = line_start_ = 0;
    line_ = 1;
    move_to(std::min(offset, text_.size()));
    return here();
  }

 private:
  Place here() const { return {line_, static_cast<int>(offset_ - line_start_) + 1}; }

  void move_to(std::size_t offset) {
    for (; offset_ < offset; ++offset_) {
      if (text_[offset_] != '\n') continue;
      ++line_;
      line_start_ = offset_ + 1;
    }
  }

  std::size_t end_of_token(std::size_t start) const {
    if (start >= text_.size()) return start;
    std::size_t end = start + 1;
    if (text_[start] == '"') {
      while (end < text_.size() && text_[end] != '"') end += text_[end] == '\\' ? 2 : 1;
      return end + 1;
    }
    if (text_[start] == '{' || text_[start] == '[') return end;
    return std::min(text_.find_first_of(" \t\r\n,:[]{}\"", end), text_.size());
  }

  std::string_view text_;
  std::size_t offset_ = 0;
  std::size_t line_start_ = 0;
  int line_ = 1;
};

// Events of nlohmann's parser, which keeps its own stack on the heap: depth is bounded here.
class TreeBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  TreeBuilder(const Source& source, std::vector<Diagnostic>& diagnostics)
      : source_(source), cursor_(source), diagnostics_(diagnostics) {}

  YamlNode take_root() { return std::move(root_); }

  bool null() override { return add({YamlNode::Kind::kNull, cursor_.next("n"), {}, {}, {}, {}}); }
  bool boolean(bool value) override { return scalar(value ? "true" : "false", "tf"); }
  bool number_integer(std::int64_t value) override {
    return scalar(std::to_string(value), "-0123456789");
  }
  bool number_unsigned(std::uint64_t value) override {
    return scalar(std::to_string(value), "-0123456789");
  }
  bool number_float(double /*value*/, const std::string& text) override {
    return scalar(text, "-0123456789");
  }
  bool string(std::string& value) override {
    return add({YamlNode::Kind::kScalar, cursor_.next("\""), value, true, {}, {}});
  }
  bool binary(nlohmann::json::binary_t& /*value*/) override { return false; }
  bool start_object(std::size_t /*size*/) override { return open(YamlNode::Kind::kMap, "{"); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t /*size*/) override { return open(YamlNode::Kind::kSequence, "["); }
  bool end_array() override { return close(); }

  bool key(std::string& name) override {
    Frame& top = frames_.back();
    top.key_place = cursor_.next("\"");
    top.key = name;
    if (top.keys.insert(name).second) return true;
    Diagnostic diagnostic =
        source_.error("NQD1007", top.key_place, name, "\"" + printable(name) + "\" is given twice");
    diagnostic.hint = "keep the value that you mean";
    return fail(std::move(diagnostic));
  }

  bool parse_error(std::size_t position, const std::string& last_token,
                   const nlohmann::json::exception& /*error*/) override {
    const std::size_t offset = position == 0 ? 0 : position - 1;
    Diagnostic diagnostic =
        source_.error("NQD2302", cursor_.at(offset), "", "the text is not JSON from here");
    const bool end = offset >= source_.text().size();
    diagnostic.got = end ? "the end of the text" : "\"" + printable(last_token) + "\"";
    diagnostic.hint =
        "JSON has no comments and no comma after a last value; texts and keys stand "
        "in double quotes";
    return fail(std::move(diagnostic));
  }

 private:
  struct Frame {
    YamlNode node;
    std::string key;
    Place key_place;
    std::unordered_set<std::string> keys;
  };

  bool fail(Diagnostic diagnostic) {
    diagnostics_.push_back(std::move(diagnostic));
    return false;
  }

  bool scalar(std::string text, std::string_view starts) {
    return add({YamlNode::Kind::kScalar, cursor_.next(starts), std::move(text), false, {}, {}});
  }

  bool open(YamlNode::Kind kind, std::string_view start) {
    const Place place = cursor_.next(start);
    if (frames_.size() >= kMaxForeignDepth) {
      return fail(source_.error(
          "NQD1024", place, "",
          "nested more than " + std::to_string(kMaxForeignDepth) + " deep, which no config needs"));
    }
    frames_.push_back({{kind, place, {}, false, {}, {}}, {}, {}, {}});
    return true;
  }

  bool close() {
    YamlNode node = std::move(frames_.back().node);
    frames_.pop_back();
    return add(std::move(node));
  }

  bool add(YamlNode node) {
    if (frames_.empty()) {
      root_ = std::move(node);
    } else if (frames_.back().node.kind == YamlNode::Kind::kSequence) {
      frames_.back().node.items.push_back(std::move(node));
    } else {
      Frame& top = frames_.back();
      top.node.entries.push_back({top.key, top.key_place, std::move(node)});
    }
    return true;
  }

  const Source& source_;
  Cursor cursor_;
  std::vector<Diagnostic>& diagnostics_;
  std::vector<Frame> frames_;
  YamlNode root_;
};

}  // namespace

std::optional<Diagnostic> check_foreign_text(const Source& source) {
  std::optional<Diagnostic> problem = check_text(source);
  // Tabs are the last thing that check_text looks for, and they matter to YAML alone.
  if (problem && problem->code == "NQD1018") return std::nullopt;
  return problem;
}

bool has_room(const Source& source, std::vector<Diagnostic>& diagnostics) {
  constexpr std::size_t kMaxWarnings = 50;
  if (diagnostics.size() < kMaxWarnings) return true;
  if (diagnostics.size() > kMaxWarnings) return false;
  Diagnostic note = source.error("NQD1031", {}, "", "further warnings are not shown");
  note.severity = Severity::kNote;
  diagnostics.push_back(std::move(note));
  return false;
}

std::optional<YamlNode> parse_json(const Source& source, std::vector<Diagnostic>& diagnostics) {
  if (std::optional<Diagnostic> problem = check_foreign_text(source)) {
    diagnostics.push_back(std::move(*problem));
    return std::nullopt;
  }
  TreeBuilder builder(source, diagnostics);
  if (!nlohmann::json::sax_parse(source.text(), &builder)) return std::nullopt;
  YamlNode root = builder.take_root();
  if (root.kind == YamlNode::Kind::kMap) return root;
  Diagnostic diagnostic = source.error("NQD1004", root.place, "", "the text is no JSON object");
  diagnostic.expected = "{\"key\": value, ...}";
  diagnostic.got = describe(root);
  diagnostics.push_back(std::move(diagnostic));
  return std::nullopt;
}

}  // namespace nqd::planner

#include "planner/config/yaml_tree.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <exception>
#include <sstream>
#include <unordered_map>
#include <utility>

namespace nqd::planner {
namespace {

constexpr std::size_t kMaxDepth = 16;

// Ends a parse from inside an event; carries what to report.
struct Refusal {
  Diagnostic diagnostic;
};

Place place_of(const YAML::Mark& mark) {
  if (mark.is_null()) return {};
  return {mark.line + 1, mark.column + 1};
}

// Builds the tree from parser events rather than from YAML::Node: events keep duplicate keys,
// quoting and anchors, which the node graph has already lost.
class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(const Source& source, std::vector<Diagnostic>& diagnostics)
      : source_(source), diagnostics_(diagnostics) {}

  bool trusted() const { return trusted_; }
  YamlNode take_root() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (documents_++ > 0) {
      throw Refusal{source_.error("NQD1025", place_of(mark), "",
                                  "a config file holds one YAML document; this starts a second")};
    }
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_anchor(mark, anchor);
    add({YamlNode::Kind::kNull, place_of(mark), {}, false, {}, {}});
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override {
    refuse(mark, "YAML aliases (*name) are not supported", "write the value out");
    add({YamlNode::Kind::kNull, place_of(mark), {}, false, {}, {}});
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    // yaml-cpp resolves a quoted scalar to the tag "!" and a plain one to "?".
    add({YamlNode::Kind::kScalar, place_of(mark), value, tag == "!", {}, {}});
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    open(YamlNode::Kind::kSequence, mark);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    open(YamlNode::Kind::kMap, mark);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Frame {
    YamlNode node;
    bool has_key = false;  // of a map: the next node is the value of `key`
    std::string key;
    Place key_place;
    std::unordered_map<std::string, Place> first_places = {};  // of the map's keys so far
  };

  void refuse(const YAML::Mark& mark, const std::string& message, const std::string& hint) {
    Diagnostic diagnostic = source_.error("NQD1019", place_of(mark), "", message);
    diagnostic.hint = hint;
    diagnostics_.push_back(std::move(diagnostic));
    trusted_ = false;
  }
  void refuse_anchor(const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (anchor == 0) return;
    refuse(mark, "YAML anchors (&name) are not supported", "remove the anchor");
  }
  void refuse_tag(const YAML::Mark& mark, const std::string& tag) {
    if (tag.empty() || tag == "?" || tag == "!") return;
    refuse(mark, "YAML tags (" + printable(tag) + ") are not supported",
           "remove the tag: the key decides the type of its value");
  }

  void open(YamlNode::Kind kind, const YAML::Mark& mark) {
    if (frames_.size() >= kMaxDepth) {
      throw Refusal{source_.error(
          "NQD1024", place_of(mark), "",
          "nested more than " + std::to_string(kMaxDepth) + " deep, which no config needs")};
    }
    refuse_as_key(mark);
    frames_.push_back({{kind, place_of(mark), {}, false, {}, {}}, false, {}, {}});
  }

  void refuse_as_key(const YAML::Mark& mark) {
    if (frames_.empty()) return;
    const Frame& top = frames_.back();
    if (top.node.kind != YamlNode::Kind::kMap || top.has_key) return;
    throw Refusal{source_.error("NQD1002", place_of(mark), "",
                                "YAML syntax: a list or mapping cannot be a key here")};
  }

  void close() {
    YamlNode node = std::move(frames_.back().node);
    frames_.pop_back();
    add(std::move(node));
  }

  void add(YamlNode node) {
    if (frames_.empty()) {
      root_ = std::move(node);
      return;
    }
    Frame& top = frames_.back();
    if (top.node.kind == YamlNode::Kind::kSequence) {
      top.node.items.push_back(std::move(node));
    } else if (!top.has_key) {
      top.key = node.kind == YamlNode::Kind::kNull ? "null" : node.text;
      top.key_place = node.place;
      top.has_key = true;
    } else {
      add_entry(top, std::move(node));
    }
  }

  void add_entry(Frame& top, YamlNode node) {
    top.has_key = false;
    // An empty value's own mark is that of whatever follows it.
    if (node.kind == YamlNode::Kind::kNull) node.place = top.key_place;
    if (top.key == "<<") {
      Diagnostic diagnostic =
          source_.error("NQD1019", top.key_place, "", "YAML merge keys (<<) are not supported");
      diagnostic.hint = "use a preset and override single keys";
      diagnostics_.push_back(std::move(diagnostic));
      trusted_ = false;
      return;
    }
    const auto [first, fresh] = top.first_places.emplace(top.key, top.key_place);
    if (!fresh) {
      report_duplicate(top.key, first->second, top.key_place);
      return;
    }
    top.node.entries.push_back({top.key, top.key_place, std::move(node)});
  }

  void report_duplicate(const std::string& key, Place first, Place second) {
    Diagnostic diagnostic =
        source_.error("NQD1007", second, "", "the key " + printable(key) + " is given twice");
    diagnostic.related.push_back(
        {{source_.name(), first.line, first.column}, "it is first given here"});
    diagnostic.hint = "keep one of the two";
    diagnostics_.push_back(std::move(diagnostic));
  }

  const Source& source_;
  std::vector<Diagnostic>& diagnostics_;
  std::vector<Frame> frames_;
  YamlNode root_;
  int documents_ = 0;
  bool trusted_ = true;
};

std::string syntax_hint(const std::string& message) {
  if (message.find("map flow") != std::string::npos ||
      message.find("sequence flow") != std::string::npos) {
    return "a { or [ is not closed, on this line or above";
  }
  if (message.find("end of map") != std::string::npos) {
    return "keys of one section start in the same column, each as `key: value`";
  }
  if (message.find("illegal map value") != std::string::npos) {
    return "quote a value that contains a colon";
  }
  return {};
}

Diagnostic syntax_error(const Source& source, Place place, const std::string& message) {
  Diagnostic diagnostic = source.error("NQD1002", place, "", "YAML syntax: " + message);
  diagnostic.caret_length = 1;
  diagnostic.hint = syntax_hint(message);
  return diagnostic;
}

}  // namespace

std::optional<YamlNode> parse_yaml(const Source& source, std::vector<Diagnostic>& diagnostics) {
  if (std::optional<Diagnostic> unfit = check_text(source)) {
    diagnostics.push_back(std::move(*unfit));
    return std::nullopt;
  }
  TreeBuilder builder(source, diagnostics);
  try {
    std::istringstream stream(source.text());
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const Refusal& refusal) {
    diagnostics.push_back(refusal.diagnostic);
    return std::nullopt;
  } catch (const YAML::Exception& error) {
    diagnostics.push_back(syntax_error(source, place_of(error.mark), error.msg));
    return std::nullopt;
  } catch (const std::exception& error) {
    // yaml-cpp 0.7 lets a few standard exceptions out for malformed escapes and directives.
    diagnostics.push_back(syntax_error(source, {}, error.what()));
    return std::nullopt;
  }
  if (!builder.trusted()) return std::nullopt;
  return builder.take_root();
}

}  // namespace nqd::planner

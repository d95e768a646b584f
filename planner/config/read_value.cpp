#include "planner/config/read_value.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "planner/config/block_list.h"
#include "planner/config/suggest.h"

namespace nqd::planner {
namespace {

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

bool is_true_word(std::string_view text) {
  return is_one_of(text, {"on", "On", "ON", "yes", "Yes", "YES", "True", "TRUE", "y", "Y"});
}
bool is_false_word(std::string_view text) {
  return is_one_of(text, {"off", "Off", "OFF", "no", "No", "NO", "False", "FALSE", "n", "N"});
}

// Reads one value; each reader returns the value or fills `problem_` through `fail`.
class ValueReader {
 public:
  ValueReader(const Field& field, const Source& source, Diagnostic& problem)
      : field_(field), source_(source), problem_(problem) {}

  std::optional<Value> read(const YamlNode& node) {
    if (node.kind == YamlNode::Kind::kNull) {
      fail("NQD1029", node, std::string(field_.path) + " has no value",
           "write a value after the colon, or remove the key for its default");
      problem_.got.clear();
      return std::nullopt;
    }
    switch (field_.kind) {
      case Kind::kInteger:
        return widen(read_integer(node));
      case Kind::kNumber:
        return widen(read_number(node));
      case Kind::kBoolean:
        return read_boolean(node);
      case Kind::kText:
        return read_text(node);
      case Kind::kChoice:
        return read_choice(node);
      case Kind::kIntegers:
        return read_list(node, [this](const YamlNode& item) { return read_integer(item); });
      case Kind::kNumbers:
        return read_list(node, [this](const YamlNode& item) { return read_number(item); });
      case Kind::kBlocks:
        return widen(read_block_list(node, source_, problem_));
      default:
        return read_quantity(node);
    }
  }

 private:
  template <typename T>
  static std::optional<Value> widen(const std::optional<T>& value) {
    if (!value) return std::nullopt;
    return Value(*value);
  }

  void fail(std::string code, const YamlNode& node, std::string message, std::string hint = {}) {
    problem_ =
        source_.error(std::move(code), node.place, std::string(field_.path), std::move(message));
    problem_.expected = expectation(field_);
    problem_.got = describe(node);
    problem_.hint = std::move(hint);
  }

  void fail_type(const YamlNode& node) {
    const std::string key(leaf_of(field_.path));
    const bool quoted_number =
        node.kind == YamlNode::Kind::kScalar && node.quoted && parse_number(node.text).has_value();
    fail("NQD1008", node, std::string(field_.path) + " has a value of the wrong type",
         quoted_number ? "write `" + key + ": " + node.text + "`, without quotes" : "");
  }

  bool check_range(const YamlNode& node, double value) {
    if (field_.range.contains(value)) return true;
    fail("NQD1009", node, std::string(field_.path) + " is out of range", range_hint(value));
    return false;
  }

  std::string range_hint(double value) const {
    const bool low = value <= field_.range.low;
    const double end = low ? field_.range.low : field_.range.high;
    if (low ? field_.range.low_open : field_.range.high_open) {
      return "write a value " + std::string(low ? "above " : "below ") + number_text(end);
    }
    return "the nearest legal value is " + number_text(end);
  }

  std::optional<std::int64_t> read_integer(const YamlNode& node) {
    if (node.kind != YamlNode::Kind::kScalar || node.quoted) {
      fail_type(node);
      return std::nullopt;
    }
    if (const std::optional<std::int64_t> value = parse_integer(node.text)) {
      if (!check_range(node, static_cast<double>(*value))) return std::nullopt;
      return value;
    }
    const std::optional<double> number = parse_number(node.text);
    const bool whole = number && *number == std::floor(*number);
    if (number && !std::isfinite(*number)) {
      fail_not_finite(node);
    } else if (!whole) {
      fail_type(node);
    } else if (field_.range.contains(*number)) {
      fail("NQD1023", node,
           std::string(field_.path) + " is an integer, but " + node.text +
               " is a floating-point number in YAML",
           "write `" + std::string(leaf_of(field_.path)) + ": " + number_text(*number) + "`");
    } else {
      check_range(node, *number);
    }
    return std::nullopt;
  }

  void fail_not_finite(const YamlNode& node) {
    fail("NQD1017", node, std::string(field_.path) + " must be finite");
  }

  std::optional<double> read_number(const YamlNode& node) {
    const bool plain = node.kind == YamlNode::Kind::kScalar && !node.quoted;
    const std::optional<double> value = plain ? parse_number(node.text) : std::nullopt;
    if (!value) {
      fail_type(node);
      return std::nullopt;
    }
    if (!std::isfinite(*value)) {
      fail_not_finite(node);
      return std::nullopt;
    }
    if (!check_range(node, *value)) return std::nullopt;
    return value;
  }

  std::optional<Value> read_boolean(const YamlNode& node) {
    const bool plain = node.kind == YamlNode::Kind::kScalar && !node.quoted;
    if (plain && node.text == "true") return Value(true);
    if (plain && node.text == "false") return Value(false);
    if (plain && (is_true_word(node.text) || is_false_word(node.text))) {
      fail("NQD1022", node,
           "`" + node.text + "` is a boolean in YAML 1.1 but a text in YAML 1.2, so it is refused",
           "write `" + std::string(leaf_of(field_.path)) + ": " +
               (is_true_word(node.text) ? "true`" : "false`"));
      return std::nullopt;
    }
    fail_type(node);
    return std::nullopt;
  }

  std::optional<Value> read_text(const YamlNode& node) {
    if (node.kind == YamlNode::Kind::kScalar) return Value(node.text);
    fail_type(node);
    return std::nullopt;
  }

  std::optional<Value> read_choice(const YamlNode& node) {
    if (node.kind != YamlNode::Kind::kScalar) {
      fail_type(node);
      return std::nullopt;
    }
    const std::vector<std::string_view> choices(field_.choices.begin(), field_.choices.end());
    if (std::find(choices.begin(), choices.end(), node.text) != choices.end()) {
      return Value(node.text);
    }
    const std::optional<std::string> meant = closest(node.text, choices);
    fail("NQD1010", node,
         std::string(field_.path) + " does not know \"" + printable(node.text) + "\"",
         meant ? "did you mean " + *meant + "?" : "");
    return std::nullopt;
  }

  template <typename ReadItem>
  std::optional<Value> read_list(const YamlNode& node, ReadItem read_item) {
    if (node.kind != YamlNode::Kind::kSequence) {
      fail_type(node);
      return std::nullopt;
    }
    std::vector<typename std::invoke_result_t<ReadItem, const YamlNode&>::value_type> values;
    for (const YamlNode& item : node.items) {
      const auto value = read_item(item);
      if (!value) return std::nullopt;
      values.push_back(*value);
    }
    return Value(std::move(values));
  }

  std::optional<Value> read_quantity(const YamlNode& node) {
    if (node.kind != YamlNode::Kind::kScalar) {
      fail_type(node);
      return std::nullopt;
    }
    std::optional<double> value = parse_quantity(field_.kind, node.text);
    // A plain number in any notation is in the base unit; it also tells infinite and negative.
    if (!value) value = parse_number(node.text);
    if (!value) {
      fail("NQD1013", node, "\"" + printable(node.text) + "\" is not " + expectation(field_));
      problem_.expected.clear();
      problem_.got.clear();
      problem_.hint = unit_hint();
      return std::nullopt;
    }
    if (!std::isfinite(*value)) {
      fail_not_finite(node);
      return std::nullopt;
    }
    if (!check_range(node, *value)) return std::nullopt;
    Draft draft;
    const bool integral = std::holds_alternative<std::int64_t*>(field_.slot(draft));
    if (!integral) return Value(*value);
    if (*value == std::floor(*value)) return Value(static_cast<std::int64_t>(*value));
    fail("NQD1013", node, "a size is a whole number of bytes");
    return std::nullopt;
  }

  std::string unit_hint() const {
    switch (field_.kind) {
      case Kind::kBytes:
        return "units: B kB MB GB TB (powers of 1000), KiB MiB GiB TiB (1024)";
      case Kind::kBytesPerSecond:
        return "units: MB/s GB/s GiB/s, or bits: Mb/s Gb/s";
      case Kind::kFlops:
        return "units: GFLOP/s TFLOP/s PFLOP/s";
      default:
        return "units: ns us ms s";
    }
  }

  const Field& field_;
  const Source& source_;
  Diagnostic& problem_;
};

}  // namespace

std::optional<Value> read_value(const Field& field, const YamlNode& node, const Source& source,
                                Diagnostic& problem) {
  return ValueReader(field, source, problem).read(node);
}

std::string describe(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kNull:
      return "nothing";
    case YamlNode::Kind::kSequence:
      return "a list";
    case YamlNode::Kind::kMap:
      return "a mapping";
    case YamlNode::Kind::kScalar:
      break;
  }
  const std::string text = printable(node.text);
  if (node.quoted) return "string \"" + text + "\"";
  if (parse_integer(node.text)) return "integer " + text;
  if (parse_number(node.text)) return "number " + text;
  if (node.text == "true" || node.text == "false") return "boolean " + text;
  return "string \"" + text + "\"";
}

}  // namespace nqd::planner

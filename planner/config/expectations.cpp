#include "planner/config/expectations.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/units.h"
#include "collectives/types.h"
#include "planner/config/read_value.h"
#include "planner/config/source.h"
#include "planner/config/suggest.h"
#include "planner/config/yaml_tree.h"

namespace nqd::planner {
namespace {

constexpr const char* kShape =
    "write expect: a list of entries with collective, algorithm, min_bytes, max_bytes, "
    "min_busbw_gbps and max_p50_s";

class ExpectationReader {
 public:
  explicit ExpectationReader(const Source& source) : source_(source) {}

  std::vector<Expectation> read(const YamlNode& root) const {
    const YamlNode* list = nullptr;
    if (root.kind == YamlNode::Kind::kMap) {
      for (const YamlEntry& entry : root.entries) {
        if (entry.key != "expect") fail(entry.key_place, "there is no key \"" + entry.key + "\"");
        list = &entry.value;
      }
    }
    if (list == nullptr || list->kind != YamlNode::Kind::kSequence || list->items.empty()) {
      fail(list == nullptr ? root.place : list->place, "a list of expectations is missing");
    }
    std::vector<Expectation> expectations;
    for (const YamlNode& item : list->items) expectations.push_back(entry(item));
    return expectations;
  }

 private:
  [[noreturn]] void fail(Place place, const std::string& what,
                         const std::string& hint = kShape) const {
    throw Error(ExitCode::kUsage, "NQD2109", label(place) + ": " + what, hint);
  }

  std::string label(Place place) const {
    // The root of an empty file has no place.
    return source_.name() + ":" + std::to_string(std::max(place.line, 1)) + ":" +
           std::to_string(std::max(place.column, 1));
  }

  Expectation entry(const YamlNode& node) const {
    if (node.kind != YamlNode::Kind::kMap) {
      fail(node.place, "an expectation must be a mapping, not " + describe(node));
    }
    Expectation result;
    result.where = label(node.place);
    for (const YamlEntry& member : node.entries) read_member(member, result);
    if (result.collective.empty()) fail(node.place, "the expectation names no collective");
    if (!result.min_busbw_gbps && !result.max_p50_s) {
      fail(node.place, "the expectation has neither min_busbw_gbps nor max_p50_s");
    }
    if (result.min_bytes > result.max_bytes) {
      fail(node.place, "min_bytes is more than max_bytes, so no size is expected anything of");
    }
    return result;
  }

  void read_member(const YamlEntry& member, Expectation& result) const {
    const YamlNode& value = member.value;
    if (member.key == "collective") {
      result.collective = word(value);
      if (result.collective != "pingpong" && !collectives::parse_collective(result.collective)) {
        fail(value.place, "there is no collective \"" + printable(result.collective) + "\"");
      }
    } else if (member.key == "algorithm") {
      result.algorithm = word(value);
      if (!collectives::parse_algorithm(result.algorithm)) {
        fail(value.place, "there is no algorithm \"" + printable(result.algorithm) + "\"");
      }
    } else if (member.key == "min_bytes") {
      result.min_bytes = size(value);
    } else if (member.key == "max_bytes") {
      result.max_bytes = size(value);
    } else if (member.key == "min_busbw_gbps") {
      result.min_busbw_gbps = positive(value);
    } else if (member.key == "max_p50_s") {
      result.max_p50_s = positive(value);
    } else {
      const auto meant = closest(member.key, {"collective", "algorithm", "min_bytes", "max_bytes",
                                              "min_busbw_gbps", "max_p50_s"});
      fail(member.key_place, "there is no key \"" + printable(member.key) + "\" in an expectation",
           meant ? "did you mean " + *meant + "?" : kShape);
    }
  }

  std::string word(const YamlNode& node) const {
    if (node.kind == YamlNode::Kind::kScalar && !node.text.empty()) return node.text;
    fail(node.place, "a name is needed here, not " + describe(node));
  }

  std::uint64_t size(const YamlNode& node) const {
    const auto bytes = node.kind == YamlNode::Kind::kScalar ? parse_bytes(node.text) : std::nullopt;
    if (!bytes) fail(node.place, "a size is needed here, such as 64K, not " + describe(node));
    return *bytes;
  }

  double positive(const YamlNode& node) const {
    const bool plain = node.kind == YamlNode::Kind::kScalar && !node.quoted;
    const auto value = plain ? parse_number(node.text) : std::nullopt;
    if (!value || !std::isfinite(*value) || *value <= 0) {
      fail(node.place, "a number above 0 is needed here, not " + describe(node));
    }
    return *value;
  }

  const Source& source_;
};

}  // namespace

std::vector<Expectation> read_expectations(const std::string& path) {
  std::string text;
  try {
    text = read_file(path);
  } catch (const Error& error) {
    throw Error(ExitCode::kUsage, "NQD2109", error.what(), "give --expect a file of thresholds");
  }
  const Source source(path, std::move(text));
  std::vector<Diagnostic> found;
  const std::optional<YamlNode> root = parse_yaml(source, found);
  if (!root || !found.empty()) {
    const Diagnostic& first = found.front();
    throw Error(ExitCode::kUsage, "NQD2109",
                path + ":" + std::to_string(std::max(first.where.line, 1)) + ":" +
                    std::to_string(std::max(first.where.column, 1)) + ": " + first.message,
                first.hint);
  }
  return ExpectationReader(source).read(*root);
}

}  // namespace nqd::planner

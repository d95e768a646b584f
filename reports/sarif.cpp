#include "reports/sarif.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>

#include "base/codes.h"
#include "reports/envelope.h"
#include "reports/json_writer.h"

namespace nqd::reports {
namespace {

using Layout = JsonWriter::Layout;

constexpr std::string_view kSchema =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

std::string_view level_of(Severity severity) {
  return severity == Severity::kError     ? "error"
         : severity == Severity::kWarning ? "warning"
                                          : "note";
}

// Code points of the first `bytes` bytes of UTF-8 text: continuation bytes start none.
std::int64_t code_points(std::string_view text, std::size_t bytes) {
  return std::count_if(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(bytes),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; });
}

// A path as a URI reference: what is not unreserved is percent-encoded, byte by byte.
std::string uri(std::string_view path) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string result;
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
                       (byte >= '0' && byte <= '9') ||
                       std::string_view("-._~/").find(c) != std::string_view::npos;
    if (plain) {
      result += c;
    } else {
      result += '%';
      result += kHex[byte / 16];
      result += kHex[byte % 16];
    }
  }
  return result;
}

void write_text(JsonWriter& json, std::string_view key, std::string_view text) {
  json.key(key).begin_object(Layout::kInline);
  json.field("text", text).end();
}

// Precondition: line > 0. `line` is the text of the line, where it is known.
void write_place(JsonWriter& json, const SourceLocation& where, std::string_view line, int length) {
  json.key("physicalLocation").begin_object();
  json.key("artifactLocation").begin_object(Layout::kInline);
  json.field("uri", uri(where.file)).end();
  json.key("region").begin_object(Layout::kInline);
  json.field("startLine", where.line);
  const auto column = static_cast<std::size_t>(std::max(where.column, 1));
  if (column + static_cast<std::size_t>(length) - 1 <= line.size()) {
    json.field("startColumn", code_points(line, column - 1) + 1);
    json.field("endColumn", code_points(line, column - 1 + static_cast<std::size_t>(length)) + 1);
  } else if (line.empty() && where.column > 0) {
    // Of a line that is not shown only the byte is known, which is the same in ASCII.
    json.field("startColumn", where.column);
  }
  json.end().end();
}

void write_locations(JsonWriter& json, const Diagnostic& diagnostic, const std::string& path) {
  json.key("locations").begin_array().begin_object();
  if (diagnostic.where.line > 0) {
    write_place(json, diagnostic.where, diagnostic.source_line, diagnostic.caret_length);
  } else {
    json.key("physicalLocation").begin_object();
    json.key("artifactLocation").begin_object(Layout::kInline);
    json.field("uri", uri(path)).end().end();
  }
  json.end().end();
  json.key("relatedLocations").begin_array();
  std::int64_t id = 0;
  for (const RelatedPlace& related : diagnostic.related) {
    // A value of a preset or a default has no place in a file.
    if (related.where.line == 0) continue;
    json.begin_object();
    json.field("id", ++id);
    write_place(json, related.where, {}, 1);
    write_text(json, "message", related.message);
    json.end();
  }
  json.end();
}

std::string sentence(const std::string& text) {
  const bool ended = text.ends_with('.') || text.ends_with('?') || text.ends_with('!');
  return ended ? text : text + ".";
}

std::string message_of(const Diagnostic& diagnostic) {
  std::string text = sentence(diagnostic.message);
  if (!diagnostic.expected.empty()) text += " Expected " + sentence(diagnostic.expected);
  if (!diagnostic.got.empty()) text += " Got " + sentence(diagnostic.got);
  if (!diagnostic.hint.empty()) text += " Hint: " + sentence(diagnostic.hint);
  return text;
}

using Rules = std::map<std::string, std::size_t>;  // code -> index, in the order of codes

Rules rules_of(const std::vector<PlannedConfig>& configs) {
  Rules rules;
  for (const PlannedConfig& config : configs) {
    for (const Diagnostic& diagnostic : config.plan.diagnostics) rules[diagnostic.code] = 0;
  }
  std::size_t index = 0;
  for (auto& [code, position] : rules) position = index++;
  return rules;
}

void write_rules(JsonWriter& json, const Rules& rules) {
  json.key("rules").begin_array();
  for (const auto& [code, index] : rules) {
    json.begin_object();
    json.field("id", code);
    if (const CodeInfo* info = find_code(code)) {
      write_text(json, "shortDescription", info->title);
      write_text(json, "fullDescription", info->explanation);
      write_text(json, "help", info->explanation);
    }
    json.end();
  }
  json.end();
}

void write_result(JsonWriter& json, const Rules& rules, const Diagnostic& diagnostic,
                  const std::string& path) {
  json.begin_object();
  json.field("ruleId", diagnostic.code);
  json.field("ruleIndex", rules.at(diagnostic.code));
  json.field("level", level_of(diagnostic.severity));
  write_text(json, "message", message_of(diagnostic));
  write_locations(json, diagnostic, path);
  json.end();
}

}  // namespace

std::string plan_sarif(const std::vector<PlannedConfig>& configs) {
  const Rules rules = rules_of(configs);
  JsonWriter json;
  json.begin_object();
  json.field("$schema", kSchema);
  json.field("version", "2.1.0");
  json.key("runs").begin_array().begin_object();
  json.key("tool").begin_object().key("driver").begin_object();
  json.field("name", "nqd");
  json.field("semanticVersion", build_info().version);
  write_rules(json, rules);
  json.end().end();
  json.field("columnKind", "unicodeCodePoints");
  json.key("results").begin_array();
  for (const PlannedConfig& config : configs) {
    for (const Diagnostic& diagnostic : config.plan.diagnostics) {
      write_result(json, rules, diagnostic, config.path);
    }
  }
  json.end().end().end().end();
  return json.take();
}

}  // namespace nqd::reports

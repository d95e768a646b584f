// The field table as JSON Schema, draft 7 (the draft that editors' YAML language server reads).
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "planner/config/block_list.h"
#include "planner/config/config.h"
#include "planner/config/field.h"
#include "planner/config/presets.h"

namespace nqd::planner {
namespace {

std::string json_string(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + "\"";
}

std::string json_list(const std::vector<std::string_view>& items) {
  std::string result = "[";
  for (const std::string_view item : items) {
    if (result.size() > 1) result += ", ";
    result += json_string(item);
  }
  return result + "]";
}

// Members of one JSON object, in order.
class Object {
 public:
  explicit Object(int indent) : margin_(static_cast<std::size_t>(indent) * 2, ' ') {}

  void add(std::string_view name, const std::string& json) {
    body_ += (body_.empty() ? "\n" : ",\n") + margin_ + "  " + json_string(name) + ": " + json;
  }
  std::string text() const { return body_.empty() ? "{}" : "{" + body_ + "\n" + margin_ + "}"; }

 private:
  std::string margin_;
  std::string body_;
};

std::string_view json_type(Kind kind) {
  switch (kind) {
    case Kind::kInteger:
      return "\"integer\"";
    case Kind::kNumber:
      return "\"number\"";
    case Kind::kBoolean:
      return "\"boolean\"";
    case Kind::kText:
    case Kind::kChoice:
      return "\"string\"";
    case Kind::kIntegers:
    case Kind::kNumbers:
    case Kind::kBlocks:
      return "\"array\"";
    default:
      return "[\"number\", \"string\"]";
  }
}

std::string_view pattern(Kind kind) {
  switch (kind) {
    case Kind::kBytes:
      return "^[0-9.]+([eE][+-]?[0-9]+)? *([kKMGTP]?B?|[KMGT]iB)$";
    case Kind::kBytesPerSecond:
      return "^[0-9.]+([eE][+-]?[0-9]+)? *([kKMGTP]?B|[KMGT]iB|[MGT]b)/s$";
    case Kind::kFlops:
      return "^[0-9.]+([eE][+-]?[0-9]+)? ?[GTP]?(FLOP/s|FLOPS)$";
    case Kind::kSeconds:
      return "^[0-9.]+([eE][+-]?[0-9]+)? ?(s|ms|us|ns)$";
    default:
      return "";
  }
}

void add_range(Object& object, const Range& range) {
  if (std::isfinite(range.low)) {
    object.add(range.low_open ? "exclusiveMinimum" : "minimum", number_text(range.low));
  }
  if (std::isfinite(range.high)) {
    object.add(range.high_open ? "exclusiveMaximum" : "maximum", number_text(range.high));
  }
}

std::span<const Preset> presets_of(std::string_view path) {
  if (path == "model.preset") return model_presets();
  if (path == "cluster.preset") return cluster_presets();
  if (path == "cluster.gpu") return gpu_presets();
  if (path == "stack.preset") return stack_presets();
  return {};
}

std::vector<std::string_view> choices_of(const Field& field) {
  std::vector<std::string_view> names(field.choices.begin(), field.choices.end());
  for (const Preset& preset : presets_of(field.path)) names.push_back(preset.name);
  return names;
}

std::string default_json(const Field& field) {
  Draft draft;
  const std::string text = value_text(field, draft);
  return field.kind == Kind::kChoice ? json_string(text) : text;
}

std::string description(const Field& field) {
  std::string text(field.doc);
  if (!field.unit.empty()) text += " Unit: " + std::string(field.unit) + ".";
  if (!field.fallback.empty()) text += " Default: " + std::string(field.fallback) + ".";
  return text;
}

std::string field_schema(const Field& field, int indent);

// One block of model.blocks.
std::string block_schema(int indent) {
  Object properties(indent + 1);
  for (const Field& field : block_fields()) {
    properties.add(leaf_of(field.path), field_schema(field, indent + 2));
  }
  Object object(indent);
  object.add("type", "\"object\"");
  object.add("additionalProperties", "false");
  object.add("required", "[\"name\", \"parameters\"]");
  object.add("properties", properties.text());
  return object.text();
}

std::string field_schema(const Field& field, int indent) {
  Object object(indent);
  object.add("description", json_string(description(field)));
  object.add("type", std::string(json_type(field.kind)));
  const std::vector<std::string_view> choices = choices_of(field);
  if (!choices.empty()) object.add("enum", json_list(choices));
  if (field.kind == Kind::kIntegers || field.kind == Kind::kNumbers) {
    Object items(indent + 1);
    items.add("type", std::string(field.kind == Kind::kIntegers ? "\"integer\"" : "\"number\""));
    add_range(items, field.range);
    object.add("items", items.text());
  } else if (field.kind == Kind::kBlocks) {
    object.add("minItems", "1");
    object.add("items", block_schema(indent + 1));
  } else {
    add_range(object, field.range);
  }
  if (!pattern(field.kind).empty()) object.add("pattern", json_string(pattern(field.kind)));
  // An empty preset is no choice, so it is no default either.
  const bool preset = field.kind == Kind::kText && !choices.empty();
  if (field.fallback.empty() && !preset) object.add("default", default_json(field));
  return object.text();
}

// `path` "" is the whole file.
std::string section_schema(std::string_view path, std::string_view doc, int indent);

// A section that a plain value may stand for is either.
std::string section_or_value_schema(const Section& section, int indent) {
  const Field* field = shorthand_of(section.path);
  if (field == nullptr) return section_schema(section.path, section.doc, indent);
  Object either(indent);
  either.add("description", json_string(section.doc));
  either.add("anyOf", "[" + field_schema(*field, indent + 1) + ", " +
                          section_schema(section.path, section.doc, indent + 1) + "]");
  return either.text();
}

std::string properties_of(std::string_view path, int indent) {
  Object properties(indent);
  for (const Field& field : fields()) {
    if (parent_of(field.path) == path) {
      properties.add(leaf_of(field.path), field_schema(field, indent + 1));
    }
  }
  for (const Section& section : sections()) {
    if (parent_of(section.path) == path) {
      properties.add(leaf_of(section.path), section_or_value_schema(section, indent + 1));
    }
  }
  return properties.text();
}

std::string section_schema(std::string_view path, std::string_view doc, int indent) {
  Object object(indent);
  if (path.empty()) object.add("$schema", "\"http://json-schema.org/draft-07/schema#\"");
  if (path.empty()) object.add("title", "\"nqd config\"");
  object.add("description", json_string(doc));
  object.add("type", path.empty() ? "\"object\"" : "[\"object\", \"null\"]");
  object.add("additionalProperties", "false");
  if (path.empty()) object.add("required", "[\"model\"]");
  object.add("properties", properties_of(path, indent + 1));
  return object.text();
}

}  // namespace

std::string config_json_schema() {
  return section_schema("", "What to plan, measure or train. Generated by `nqd schema config`.",
                        0) +
         "\n";
}

}  // namespace nqd::planner

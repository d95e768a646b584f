#include "reports/json_field.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace nqd::reports {
namespace {

using Node = nlohmann::ordered_json;

const Node& node(const void* value) { return *static_cast<const Node*>(value); }

std::string_view type_name(const Node& value) {
  switch (value.type()) {
    case Node::value_t::null:
      return "null";
    case Node::value_t::boolean:
      return "a boolean";
    case Node::value_t::string:
      return "a string";
    case Node::value_t::array:
      return "an array";
    case Node::value_t::object:
      return "an object";
    default:
      return "a number";
  }
}

// nlohmann's message repeats the position and its own error number; what follows is for people.
std::string parser_reason(const std::string& what) {
  const auto start = what.find(": ");
  return start == std::string::npos ? what : what.substr(start + 2);
}

[[noreturn]] void throw_malformed(const std::filesystem::path& file, const std::string& what,
                                  const std::string& hint) {
  throw Error(ExitCode::kUsage, "NQD2101", file.string() + ": " + what, hint);
}

}  // namespace

struct JsonField::Document {
  std::filesystem::path file;
  Node root;
};

JsonField JsonField::parse(const std::string& text, const std::filesystem::path& file) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) {
    throw_malformed(file, "the file is empty", "give the JSON file that an nqd command wrote");
  }
  if (text[first] != '{' && text[first] != '[') {
    throw_malformed(file, "not JSON: byte 0 begins no object",
                    "give the JSON file that an nqd command wrote with --json or --output");
  }
  auto document = std::make_shared<Document>();
  document->file = file;
  try {
    document->root = Node::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    // The parser counts from 1 and stops one past the end of a text that ends early.
    if (error.byte > text.size()) {
      throw_malformed(file,
                      "truncated JSON: the text ends at byte " + std::to_string(text.size()) +
                          " inside a value",
                      "the file was cut off while it was copied or written; make it again");
    }
    throw_malformed(file,
                    "not JSON: at byte " + std::to_string(error.byte > 0 ? error.byte - 1 : 0) +
                        ": " + parser_reason(error.what()),
                    "give the JSON file that an nqd command wrote");
  } catch (const nlohmann::json::exception& error) {  // a number that no double can hold
    throw_malformed(file, parser_reason(error.what()), "the file is damaged; make it again");
  }
  const void* root = &document->root;
  return JsonField(std::move(document), root, {});
}

void JsonField::fail(const std::string& what, const std::string& hint) const {
  throw_malformed(document_->file, (path_.empty() ? "" : path_ + " ") + what, hint);
}

void JsonField::fail_type(std::string_view wanted) const {
  fail(std::string(path_.empty() ? "the document " : "") + "must be " + std::string(wanted) +
       ", it is " + std::string(type_name(node(value_))));
}

bool JsonField::is_object() const { return node(value_).is_object(); }

bool JsonField::is_text() const { return node(value_).is_string(); }

JsonField JsonField::at(std::string_view key) const {
  if (!is_object()) fail_type("an object");
  const auto found = node(value_).find(key);
  const std::string path = path_.empty() ? std::string(key) : path_ + "." + std::string(key);
  if (found == node(value_).end()) {
    JsonField(document_, value_, path)
        .fail("is missing", "the document was edited or is no nqd evidence");
  }
  return JsonField(document_, &*found, path);
}

std::optional<JsonField> JsonField::find(std::string_view key) const {
  if (!is_object()) fail_type("an object");
  if (!node(value_).contains(key)) return std::nullopt;
  JsonField member = at(key);
  if (node(member.value_).is_null()) return std::nullopt;
  return member;
}

std::vector<JsonField> JsonField::items() const {
  if (!node(value_).is_array()) fail_type("an array");
  std::vector<JsonField> fields;
  for (const Node& item : node(value_)) {
    fields.push_back(
        JsonField(document_, &item, path_ + "[" + std::to_string(fields.size()) + "]"));
  }
  return fields;
}

std::vector<std::pair<std::string, JsonField>> JsonField::members() const {
  if (!is_object()) fail_type("an object");
  std::vector<std::pair<std::string, JsonField>> fields;
  for (const auto& entry : node(value_).items()) fields.emplace_back(entry.key(), at(entry.key()));
  return fields;
}

std::string JsonField::text() const {
  if (!node(value_).is_string()) fail_type("a string");
  return node(value_).get<std::string>();
}

std::string JsonField::text_or(std::string if_null) const {
  return node(value_).is_null() ? std::move(if_null) : text();
}

bool JsonField::boolean() const {
  if (!node(value_).is_boolean()) fail_type("true or false");
  return node(value_).get<bool>();
}

double JsonField::number() const {
  if (!node(value_).is_number()) fail_type("a number");
  return node(value_).get<double>();
}

double JsonField::number_or(double if_null) const {
  return node(value_).is_null() ? if_null : number();
}

JsonField::Wide JsonField::whole(Wide lowest, Wide highest) const {
  const Node& value = node(value_);
  if (!value.is_number()) fail_type("a whole number");
  Wide wide = 0;
  if (value.is_number_unsigned()) {
    wide = value.get<std::uint64_t>();
  } else if (value.is_number_integer()) {
    wide = value.get<std::int64_t>();
  } else {
    // A tool that rewrites JSON may turn 8 into 8.0.
    const double number = value.get<double>();
    if (number != std::trunc(number) || std::abs(number) > 1e18) {
      fail("must be a whole number, it is " + value.dump());
    }
    wide = static_cast<std::int64_t>(number);
  }
  if (wide < lowest || wide > highest) {
    fail(std::string("is out of range: ") + value.dump() +
         (wide < lowest ? " is too small" : " is too large"));
  }
  return wide;
}

}  // namespace nqd::reports

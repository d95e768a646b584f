#include "planner/import/import_draft.h"

#include <optional>
#include <utility>
#include <variant>

namespace nqd::planner {
namespace {

// The first number that the field does not accept.
std::optional<double> out_of_range(const Field& field, const Value& value) {
  const auto check = [&](double number) {
    return field.range.contains(number) ? std::nullopt : std::optional<double>(number);
  };
  if (const auto* integer = std::get_if<std::int64_t>(&value)) {
    return check(static_cast<double>(*integer));
  }
  if (const auto* number = std::get_if<double>(&value)) return check(*number);
  if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&value)) {
    for (const std::int64_t integer : *integers) {
      if (const auto bad = check(static_cast<double>(integer))) return bad;
    }
  }
  return std::nullopt;
}

}  // namespace

void ImportDraft::set(std::string_view path, Value value, Origin origin) {
  const Field& field = *find_field(path);
  if (const std::optional<double> bad = out_of_range(field, value)) {
    Diagnostic diagnostic;
    const std::string message = std::string(path) + " would be out of range: " + origin.comment;
    if (origin.source != nullptr) {
      diagnostic = origin.source->error("NQD1009", origin.place, std::string(path), message);
    } else {
      diagnostic.code = "NQD1009";
      diagnostic.path = path;
      diagnostic.message = message;
    }
    diagnostic.expected = expectation(field);
    diagnostic.got = number_text(*bad);
    report(std::move(diagnostic));
    return;
  }
  values_.insert_or_assign(std::string(path), Entry{std::move(value), std::move(origin)});
}

std::int64_t ImportDraft::integer(std::string_view path, std::int64_t fallback) const {
  const auto found = values_.find(path);
  return found == values_.end() ? fallback : std::get<std::int64_t>(found->second.value);
}

bool ImportDraft::is(std::string_view path, const Value& value) const {
  const auto found = values_.find(path);
  return found != values_.end() && found->second.value == value;
}

const Origin* ImportDraft::origin(std::string_view path) const {
  const auto found = values_.find(path);
  return found == values_.end() ? nullptr : &found->second.origin;
}

void ImportDraft::warn(Diagnostic diagnostic) {
  diagnostic.severity = Severity::kWarning;
  report(std::move(diagnostic));
}

std::vector<ImportedValue> ImportDraft::values() const {
  std::vector<ImportedValue> listed;
  for (const Field& field : fields()) {
    const auto found = values_.find(field.path);
    if (found == values_.end()) continue;
    listed.push_back({found->first, found->second.value, {}});
  }
  return listed;
}

}  // namespace nqd::planner

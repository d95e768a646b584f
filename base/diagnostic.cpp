#include "base/diagnostic.h"

#include <algorithm>
#include <tuple>

namespace nqd {
namespace {

std::string place(const SourceLocation& where) {
  std::string text = where.file;
  if (where.line > 0) {
    text += ":" + std::to_string(where.line) + ":" + std::to_string(std::max(where.column, 1));
  }
  return text;
}

std::string quoted_line(const Diagnostic& diagnostic) {
  const std::string number = std::to_string(diagnostic.where.line);
  const std::string margin(std::max<std::size_t>(number.size(), 4), ' ');
  std::string text(margin.size() - number.size(), ' ');
  text += number + " | " + diagnostic.source_line + "\n" + margin + " | ";
  // A tab before the caret is kept, so that the caret stands under its column in any tab width.
  const auto before = static_cast<std::size_t>(std::max(diagnostic.where.column - 1, 0));
  for (std::size_t i = 0; i < before; ++i) {
    const bool tab = i < diagnostic.source_line.size() && diagnostic.source_line[i] == '\t';
    text += tab ? '\t' : ' ';
  }
  text += std::string(static_cast<std::size_t>(std::max(diagnostic.caret_length, 1)), '^') + "\n";
  return text;
}

std::string expectation(const Diagnostic& diagnostic) {
  if (diagnostic.expected.empty() && diagnostic.got.empty()) return {};
  std::string text = "  ";
  if (!diagnostic.expected.empty()) text += "expected " + diagnostic.expected;
  if (!diagnostic.expected.empty() && !diagnostic.got.empty()) text += ", ";
  if (!diagnostic.got.empty()) text += "got " + diagnostic.got;
  return text + "\n";
}

}  // namespace

std::string_view name(Severity severity) {
  switch (severity) {
    case Severity::kError:
      return "error";
    case Severity::kWarning:
      return "warning";
    case Severity::kNote:
      return "note";
  }
  return "?";
}

void sort_by_place(std::vector<Diagnostic>& diagnostics) {
  std::stable_sort(diagnostics.begin(), diagnostics.end(),
                   [](const Diagnostic& a, const Diagnostic& b) {
                     return std::tie(a.where.file, a.where.line, a.where.column) <
                            std::tie(b.where.file, b.where.line, b.where.column);
                   });
}

bool has_errors(const std::vector<Diagnostic>& diagnostics) {
  return std::any_of(diagnostics.begin(), diagnostics.end(),
                     [](const Diagnostic& d) { return d.severity == Severity::kError; });
}

std::string format(const Diagnostic& diagnostic) {
  std::string text = place(diagnostic.where) + ": " + std::string(name(diagnostic.severity)) + "[" +
                     diagnostic.code + "]: " + diagnostic.message + "\n";
  if (diagnostic.where.line > 0 && !diagnostic.source_line.empty()) text += quoted_line(diagnostic);
  text += expectation(diagnostic);
  for (const RelatedPlace& related : diagnostic.related) {
    text += "  " + place(related.where) + ": note: " + related.message + "\n";
  }
  if (!diagnostic.hint.empty()) text += "  hint: " + diagnostic.hint + "\n";
  return text;
}

}  // namespace nqd

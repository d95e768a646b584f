#include "reports/github.h"

#include <algorithm>
#include <string_view>

#include "base/codes.h"

namespace nqd::reports {
namespace {

std::string escaped(std::string_view text, bool property) {
  std::string result;
  for (const char c : text) {
    if (c == '%') {
      result += "%25";
    } else if (c == '\r') {
      result += "%0D";
    } else if (c == '\n') {
      result += "%0A";
    } else if (property && c == ':') {
      result += "%3A";
    } else if (property && c == ',') {
      result += "%2C";
    } else {
      result += c;
    }
  }
  return result;
}

std::string_view command_of(Severity severity) {
  if (severity == Severity::kError) return "error";
  return severity == Severity::kWarning ? "warning" : "notice";
}

// What stands below the first line of format().
std::string message_of(const Diagnostic& diagnostic) {
  std::string text = diagnostic.message;
  if (!diagnostic.expected.empty()) text += "\nexpected " + diagnostic.expected;
  if (!diagnostic.got.empty()) text += "\ngot " + diagnostic.got;
  if (!diagnostic.hint.empty()) text += "\nhint: " + diagnostic.hint;
  return text;
}

std::string command(const Diagnostic& diagnostic, const std::string& path) {
  const bool placed = diagnostic.where.line > 0;
  std::string line = "::" + std::string(command_of(diagnostic.severity)) +
                     " file=" + escaped(placed ? diagnostic.where.file : path, true);
  if (placed) {
    const int column = std::max(diagnostic.where.column, 1);
    line += ",line=" + std::to_string(diagnostic.where.line) + ",col=" + std::to_string(column) +
            ",endColumn=" + std::to_string(column + diagnostic.caret_length);
  }
  const CodeInfo* info = find_code(diagnostic.code);
  const std::string title = info == nullptr ? "" : " " + std::string(info->title);
  return line + ",title=" + escaped(diagnostic.code + title, true) +
         "::" + escaped(message_of(diagnostic), false) + "\n";
}

}  // namespace

std::string plan_github(const std::vector<PlannedConfig>& configs) {
  std::string text;
  std::size_t passed = 0;
  for (const PlannedConfig& config : configs) {
    passed += config.loaded && config.plan.valid ? 1 : 0;
    for (const Diagnostic& diagnostic : config.plan.diagnostics) {
      text += command(diagnostic, config.path);
    }
  }
  return text + "::notice title=nqd mesh-plan::" + std::to_string(passed) + " of " +
         std::to_string(configs.size()) + " configs pass\n";
}

}  // namespace nqd::reports

#include "reports/junit.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace nqd::reports {
namespace {

// XML 1.0 has no place for other control characters than these three.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '&') {
      result += "&amp;";
    } else if (c == '<') {
      result += "&lt;";
    } else if (c == '>') {
      result += "&gt;";
    } else if (c == '"') {
      result += "&quot;";
    } else if (static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t' || c == '\r') {
      result += c;
    } else {
      result += "\xEF\xBF\xBD";
    }
  }
  return result;
}

std::string findings_text(const PlannedConfig& config) {
  std::string text;
  for (const Diagnostic& diagnostic : config.plan.diagnostics) text += format(diagnostic);
  return escaped(text);
}

bool malformed(const PlannedConfig& config) {
  return std::any_of(config.plan.diagnostics.begin(), config.plan.diagnostics.end(),
                     [](const Diagnostic& d) {
                       return d.severity == Severity::kError && d.code.starts_with("NQD10");
                     });
}

bool passes(const PlannedConfig& config) { return config.loaded && config.plan.valid; }

std::string verdict_element(const PlannedConfig& config) {
  const auto first =
      std::find_if(config.plan.diagnostics.begin(), config.plan.diagnostics.end(),
                   [](const Diagnostic& d) { return d.severity == Severity::kError; });
  const std::string element = malformed(config) ? "error" : "failure";
  std::string text = "      <" + element;
  if (first != config.plan.diagnostics.end()) {
    text += " message=\"" + escaped(first->message) + "\" type=\"" + escaped(first->code) + "\"";
  }
  return text + ">" + findings_text(config) + "</" + element + ">\n";
}

std::string test_case(const PlannedConfig& config) {
  std::string text = "    <testcase classname=\"nqd.mesh-plan\" name=\"" + escaped(config.path) +
                     "\" file=\"" + escaped(config.path) + "\"";
  if (passes(config) && config.plan.diagnostics.empty()) return text + "/>\n";
  text += ">\n";
  text += passes(config) ? "      <system-out>" + findings_text(config) + "</system-out>\n"
                         : verdict_element(config);
  return text + "    </testcase>\n";
}

}  // namespace

std::string plan_junit(const std::vector<PlannedConfig>& configs) {
  std::size_t failures = 0;
  std::size_t errors = 0;
  for (const PlannedConfig& config : configs) {
    if (passes(config)) continue;
    ++(malformed(config) ? errors : failures);
  }
  const std::string counts = " tests=\"" + std::to_string(configs.size()) + "\" failures=\"" +
                             std::to_string(failures) + "\" errors=\"" + std::to_string(errors) +
                             "\"";
  std::string text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"nqd\"" +
                     counts + ">\n  <testsuite name=\"mesh-plan\"" + counts + ">\n";
  for (const PlannedConfig& config : configs) text += test_case(config);
  return text + "  </testsuite>\n</testsuites>\n";
}

}  // namespace nqd::reports

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "planner/rules/rule.h"

namespace nqd::planner::rules {

std::string text(std::int64_t value) { return std::to_string(value); }

RelatedPlace value_of(std::string path, const std::string& value) {
  const std::string key = path.substr(path.rfind('.') + 1);
  return {{std::move(path), 0, 0}, key + " = " + value};
}
RelatedPlace value_of(std::string path, std::int64_t value) {
  return value_of(std::move(path), text(value));
}

Diagnostic violation(std::string code, std::string path, std::string message, std::string hint,
                     std::initializer_list<RelatedPlace> related) {
  Diagnostic diagnostic;
  diagnostic.code = std::move(code);
  diagnostic.path = std::move(path);
  diagnostic.message = std::move(message);
  diagnostic.hint = std::move(hint);
  diagnostic.related = related;
  return diagnostic;
}

Diagnostic warning(Diagnostic diagnostic) {
  diagnostic.severity = Severity::kWarning;
  return diagnostic;
}

Diagnostic note(Diagnostic diagnostic) {
  diagnostic.severity = Severity::kNote;
  return diagnostic;
}

std::string listed(const std::vector<std::int64_t>& values) {
  std::string result;
  for (const std::int64_t value : values) {
    if (!result.empty()) result += ", ";
    result += text(value);
  }
  return result;
}

std::vector<std::int64_t> divisors(std::int64_t value, std::int64_t limit, std::int64_t near) {
  std::vector<std::int64_t> found;
  for (std::int64_t d = 1; d <= std::min(value, limit); ++d) {
    if (value % d == 0) found.push_back(d);
  }
  std::stable_sort(found.begin(), found.end(), [&](std::int64_t a, std::int64_t b) {
    return std::abs(a - near) < std::abs(b - near);
  });
  if (found.size() > 8) found.resize(8);
  std::sort(found.begin(), found.end());
  return found;
}

std::string nearest_multiples(std::int64_t value, std::int64_t step) {
  const std::int64_t below = value / step * step;
  return (below > 0 ? text(below) + " or " : "") + text(below + step);
}

std::string product(const std::vector<Factor>& factors) {
  std::string names;
  std::string values;
  std::int64_t result = 1;
  for (const Factor& factor : factors) {
    const char* dot = names.empty() ? "" : "·";
    names += dot + std::string(factor.name);
    values += dot + text(factor.value);
    result *= factor.value;
  }
  return names + " = " + values + " = " + text(result);
}

std::string remainder(const Factor& value, const Factor& divisor) {
  return std::string(value.name) + " % " + std::string(divisor.name) + " = " + text(value.value) +
         " % " + text(divisor.value) + " = " + text(value.value % divisor.value);
}

std::string mesh_arithmetic(const ParallelSpec& p) {
  std::vector<Factor> factors = {{"dp", p.dp}, {"tp", p.tp}};
  if (p.cp > 1) factors.push_back({"cp", p.cp});
  factors.push_back({"pp", p.pp});
  return product(factors);
}

}  // namespace nqd::planner::rules

#include "cli/audit_table.h"

#include <array>
#include <cstdint>
#include <cstdio>

#include "base/units.h"

namespace nqd::cli {
namespace {

std::string value(const engine::AuditRow& row, double number) {
  if (row.unit == "s") return format_seconds(number);
  return format_count(static_cast<std::uint64_t>(number < 0 ? 0 : number));
}

std::string verdict(const engine::AuditRow& row) {
  if (!row.ok) return "DIFFERS";
  return row.exact ? "exact" : "ok";
}

}  // namespace

std::string audit_table(const engine::TrainResult& result) {
  std::string text = "audit: measured against predicted (bytes of the worst rank)\n";
  const auto line = [&text](const std::string& category, const std::string& kind,
                            const std::string& predicted, const std::string& measured,
                            const std::string& ratio, const std::string& ok) {
    std::array<char, 160> buffer{};
    std::snprintf(buffer.data(), buffer.size(), "  %-21s %-13s %16s %16s %9s  %s\n",
                  category.c_str(), kind.c_str(), predicted.c_str(), measured.c_str(),
                  ratio.c_str(), ok.c_str());
    text += buffer.data();
  };
  line("category", "kind", "predicted", "measured", "ratio", "verdict");
  for (const engine::AuditRow& row : result.audit) {
    std::array<char, 32> ratio{};
    std::snprintf(ratio.data(), ratio.size(), row.ratio > 1e6 ? "%.1e" : "%.6g", row.ratio);
    line(row.category, row.kind, value(row, row.predicted), value(row, row.measured), ratio.data(),
         verdict(row));
  }
  text += result.audit_ok ? "audit passed\n" : "audit FAILED: see the rows marked DIFFERS\n";
  return text;
}

}  // namespace nqd::cli

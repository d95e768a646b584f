#include <algorithm>
#include <limits>

#include "base/units.h"
#include "reports/page/format.h"
#include "reports/page/sections.h"

namespace nqd::reports {
namespace {

using engine::AuditRow;

std::string quantity(const AuditRow& row, double value) {
  if (row.unit == "s") return format_seconds(value);
  return row.unit == "bytes" ? exact_bytes(value, false) : fixed(value, 0) + " " + row.unit;
}

std::string ratio_text(const AuditRow& row) {
  if (row.ratio == 1) return "1";
  return row.ratio < std::numeric_limits<double>::max() ? fixed(row.ratio, 4) : "not predicted";
}

Cell verdict_cell(const AuditRow& row) {
  if (!row.ok) return {row.exact ? "✗ differs" : "✗ out of bounds", false, Tone::kBad};
  if (row.exact) return {"✓ exact", false, Tone::kGood};
  return {row.kind == "time" ? "reported" : "✓ within bounds", false,
          row.kind == "time" ? Tone::kPlain : Tone::kGood};
}

Table audit_table(const std::vector<AuditRow>& rows) {
  Table table{
      {"Category", "Kind", "Predicted", "Measured", "Ratio", "Verdict", "How it was measured"}, {}};
  for (const AuditRow& row : rows) {
    table.rows.push_back({{row.category},
                          {row.kind},
                          number_cell(quantity(row, row.predicted)),
                          number_cell(quantity(row, row.measured)),
                          {ratio_text(row), true, row.ok ? Tone::kPlain : Tone::kBad},
                          verdict_cell(row),
                          {row.note}});
  }
  return table;
}

BarChart memory_chart(const std::vector<AuditRow>& rows) {
  BarChart chart{.title = "Memory of a rank, predicted and measured",
                 .caption = "Measured is the peak of tagged allocations; equal bars are the point.",
                 .x = {"MiB", "linear"},
                 .categories = {},
                 .bars = {{"predicted", {}}, {"measured", {}}},
                 .table = {{"Category", "Predicted", "Measured"}, {}}};
  for (const AuditRow& row : rows) {
    if (row.unit != "bytes" || (row.kind != "persistent" && row.kind != "transient")) continue;
    constexpr double kMiB = 1024.0 * 1024.0;
    chart.categories.push_back(row.category);
    chart.bars[0].values.push_back(row.predicted / kMiB);
    chart.bars[1].values.push_back(row.measured / kMiB);
    chart.table.rows.push_back({{row.category},
                                number_cell(exact_bytes(row.predicted)),
                                number_cell(exact_bytes(row.measured))});
  }
  return chart;
}

void add_traffic(Page& page, const std::vector<engine::TrafficRecord>& traffic) {
  if (traffic.empty()) return;
  Table table{{"Rank", "Group", "Collective", "Calls", "Messages", "Bytes sent"}, {}};
  for (const engine::TrafficRecord& sent : traffic) {
    table.rows.push_back({number_cell(std::to_string(sent.rank)),
                          {sent.group},
                          {sent.collective},
                          number_cell(format_count(sent.calls)),
                          number_cell(format_count(sent.messages)),
                          number_cell(format_count(sent.bytes_sent))});
  }
  page.details("What each rank sent", table);
}

}  // namespace

void add_audit(Page& page, const Documents& documents) {
  const auto has_audit = [](const Evidence& document) { return !document.train.audit.empty(); };
  const auto runs = std::count_if(documents.begin(), documents.end(), has_audit);
  if (runs == 0) return;
  page.begin_section(
      "audit", "Audit",
      "What the plan promised beside what the run did. Measured values come from "
      "counters inside the allocator and the transports, never from the plan. Ratio: "
      "measured ÷ predicted.");
  for (const Evidence& document : documents) {
    if (!has_audit(document)) continue;
    if (runs > 1) page.heading(document_name(document, documents));
    const BarChart memory = memory_chart(document.train.audit);
    if (!memory.categories.empty()) {
      page.begin_charts();
      page.chart(memory);
      page.end_charts();
    }
    page.table(audit_table(document.train.audit));
    add_traffic(page, document.train.traffic);
  }
  page.end_section();
}

}  // namespace nqd::reports

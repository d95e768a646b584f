#include "reports/html.h"

#include <algorithm>

#include "base/error.h"
#include "reports/page/assets.h"
#include "reports/page/page.h"
#include "reports/page/sections.h"

namespace nqd::reports {
namespace {

bool has_content(const Evidence& document) {
  return !document.bench.rows.empty() || !document.bench.gemm_rows.empty() ||
         document.bench.memory_bandwidth_bytes_per_s > 0 || !document.train.steps.empty() ||
         !document.train.audit.empty() || document.train.fault.has_value() ||
         !document.calibration.curves.empty() || !document.checks.empty() ||
         !document.curves.curves.empty() || !document.scale.points.empty();
}

std::string title_of(const Documents& documents) {
  const auto any = [&](std::string_view kind) {
    return std::any_of(documents.begin(), documents.end(),
                       [&](const Evidence& document) { return document.envelope.kind == kind; });
  };
  if (any("train")) return "Distributed training report";
  if (any("scale")) return "Scaling report";
  if (any("curves")) return "Training report";
  if (any("bench") || any("calibration")) return "Fabric report";
  return "Machine report";
}

std::string subtitle_of(const Documents& documents) {
  const Envelope& first = documents.front().envelope;
  std::string hosts = first.host.hostname;
  for (const Evidence& document : documents) {
    const std::string& host = document.envelope.host.hostname;
    if (!host.empty() && hosts.find(host) == std::string::npos) hosts += ", " + host;
  }
  const std::string count = std::to_string(documents.size());
  return count + (documents.size() == 1 ? " document" : " documents") +
         (hosts.empty() ? "" : " measured on " + hosts) +
         (first.started_at.empty() ? "" : ", " + first.started_at) + " · nqd " +
         build_info().version + " (" + build_info().git_commit.substr(0, 12) +
         ") made this page at " + now_utc();
}

}  // namespace

std::string render_html(const std::vector<Evidence>& evidence) {
  if (std::none_of(evidence.begin(), evidence.end(), has_content)) {
    throw Error(ExitCode::kUsage, "NQD2203",
                "nothing to show: the documents hold no rows, steps, points, curves or checks",
                "give evidence of nqd bench, train, scale, calibrate --json or doctor --json");
  }
  Page page(title_of(evidence), subtitle_of(evidence));
  add_summary(page, evidence);
  add_heldout(page, evidence);
  add_scale(page, evidence);
  add_training(page, evidence);
  add_audit(page, evidence);
  add_fabric(page, evidence);
  add_compute(page, evidence);
  add_machine(page, evidence);
  add_provenance(page, evidence);
  return page.finish();
}

std::string chart_library() {
  // "/*!\n * Chart.js v3.9.1\n …": the first line of the licence comment that has a name.
  const std::string_view text = assets::chart_js().substr(0, 400);
  const auto start = text.find("Chart.js v");
  if (start == std::string_view::npos) return "Chart.js";
  return std::string(text.substr(start, text.find_first_of("\r\n", start) - start));
}

}  // namespace nqd::reports

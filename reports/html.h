// One self-contained HTML page from evidence: no network, no external file.
#pragma once

#include <string>
#include <vector>

#include "reports/evidence.h"

namespace nqd::reports {

// A section for each kind present: cards, verdicts, fabric and fitted curves, compute, loss and
// step time, scaling, memory bars, audit table, faults, machine checks, provenance. Every chart
// carries its numbers as a table, so the page reads without scripts too. Throws Error (kUsage,
// NQD2203) when the documents hold nothing that can be shown.
std::string render_html(const std::vector<Evidence>& evidence);

// The chart library inside this binary: "Chart.js v3.9.1".
std::string chart_library();

}  // namespace nqd::reports

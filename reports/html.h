// One self-contained HTML page from evidence: no network, no external file.
#pragma once

#include <string>
#include <vector>

#include "reports/evidence.h"

namespace nqd::reports {

// Fabric curve, loss curve, memory bars and audit table: a section for each kind present.
std::string render_html(const std::vector<Evidence>& evidence);

}  // namespace nqd::reports

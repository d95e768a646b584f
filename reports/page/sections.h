// The sections of a report page, one function each; a section without data adds nothing.
#pragma once

#include <string>
#include <vector>

#include "reports/evidence.h"
#include "reports/page/page.h"

namespace nqd::reports {

using Documents = std::vector<Evidence>;

void add_summary(Page& page, const Documents& documents);     // cards and verdicts
void add_fabric(Page& page, const Documents& documents);      // sweeps and fitted curves
void add_compute(Page& page, const Documents& documents);     // matrix products, memory rate
void add_heldout(Page& page, const Documents& documents);     // runs over one another
void add_scale(Page& page, const Documents& documents);       // campaigns over counts of ranks
void add_training(Page& page, const Documents& documents);    // loss, step time, throughput
void add_audit(Page& page, const Documents& documents);       // memory bars and the audit table
void add_machine(Page& page, const Documents& documents);     // doctor's checks
void add_provenance(Page& page, const Documents& documents);  // who, where, with what

// "runs/q/train.json" as a heading: the file, with its folder when two documents share the name.
std::string document_name(const Evidence& document, const Documents& documents);

}  // namespace nqd::reports

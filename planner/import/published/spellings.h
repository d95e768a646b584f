// The ways in which authors of tables write that a field has no value, and that something is off.
#pragma once

#include "planner/import/published/fields.h"

namespace nqd::planner::published {

// Reads a row's fields as their author meant them. "", "-", "n/a", "na", "null" and "unknown" are
// taken out, so that the field is absent. "none", "off", "no", "false", "disabled" and false are: 1
// for a degree (tp, pp, cp, ep, etp, vpp), as is 0 for the last four; false for a flag; "none" for
// `zero` and `recompute`; 0 for `fsdp` and `dropout`; absent for all others. A tp or pp of 0 stays,
// for that is no layout. A `precision` that says 16 bits and not which is "mixed". Texts lose the
// blanks around them.
void settle_spellings(Fields& row);

}  // namespace nqd::planner::published

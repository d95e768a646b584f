// Which of nqd's algorithms is fastest from which payload on.
#pragma once

#include <string>
#include <vector>

#include "planner/spec.h"
#include "reports/sample_rows.h"

namespace nqd::reports {

// One row of choices for each collective, number of ranks, place, backend and kind of buffers of
// which two or more of nqd's own algorithms were measured in one way. At the smallest size with two
// of them the lowest median is chosen (the first by name of equal ones); at each larger one the
// choice moves to a lower median where the Mann-Whitney test says that chance does not explain it
// (p < collectives::kSignificance), or where the algorithm so far was not measured. Sizes with one
// algorithm choose nothing. Left out are a library's own collective, whose traffic nqd cannot
// count, and gather and scatter, whose ranks do not know the payload. Ways that would need the same
// row are left out, and named in `skipped`.
std::vector<planner::Crossovers> find_crossovers(const std::vector<SampleRow>& rows,
                                                 std::vector<std::string>& skipped);

}  // namespace nqd::reports

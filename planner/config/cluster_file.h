// The machine that a measurement is judged against.
#pragma once

#include <string>

#include "planner/spec.h"

namespace nqd::planner {

// `name` is a file: a config, of which section `cluster` counts; the keys of that section alone (a
// preset of one's own); or a calibration, which gives curves only. Or it is the name of a shipped
// cluster preset ("dgx-h100"). Throws Error (kUsage): NQD1011 for a calibration that cannot be
// read, NQD1012 with the known names for a name that is neither, else the code of the first finding
// with file, line and column.
ClusterSpec read_cluster(const std::string& name);

}  // namespace nqd::planner

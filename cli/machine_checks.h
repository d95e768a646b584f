// What nqd doctor looks at: the build, its libraries, and the parts of the machine that decide how
// fast or whether a job runs.
#pragma once

#include <string>
#include <vector>

#include "base/host.h"
#include "reports/doctor.h"

namespace nqd::cli {

// Every check, in the order in which a person reads them. Reads /proc, /sys and the environment;
// never throws for what it finds there.
std::vector<reports::MachineCheck> check_machine(const HostInfo& host);

}  // namespace nqd::cli

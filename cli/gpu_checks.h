// What `nqd doctor` says of GPUs: what a run on them needs, what is missing, and how to mend it.
#pragma once

#include <vector>

#include "reports/doctor.h"

namespace nqd::cli {

// The CUDA layer and its libraries, NCCL, how the GPUs of this host reach each other, and what
// several ranks on one of them need. Never throws.
std::vector<reports::MachineCheck> check_gpus();

}  // namespace nqd::cli

// What `nqd doctor` found about one part of the machine or build.
#pragma once

#include <string>

namespace nqd::reports {

struct MachineCheck {
  std::string name;    // "mpi backend", "/dev/shm", …
  std::string status;  // "ok", "warn" (works, but slower or narrower), "missing" (required, broken)
  std::string detail;  // what was found
  std::string advice;  // what to do; empty when ok
};

}  // namespace nqd::reports

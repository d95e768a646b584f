// NCCL's own log of this run, for the verdicts on it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "collectives/communicator.h"

namespace nqd::collectives {

// Sets NCCL_DEBUG=INFO, the subsystems that the verdicts read, and a file a process in the folder
// of temporary files, each where the environment does not say it already. NCCL reads them once:
// call it before the first call of NCCL and before threads start. `host` and `pid` are what NCCL
// puts for %h and %p. Its file goes with the object, where it named it.
class NcclLogCapture {
 public:
  NcclLogCapture();
  ~NcclLogCapture();
  NcclLogCapture(const NcclLogCapture&) = delete;
  NcclLogCapture& operator=(const NcclLogCapture&) = delete;

  // What NCCL has written so far; empty where that cannot be read.
  std::string read() const;

 private:
  std::filesystem::path path_;
  bool own_ = false;
};

// Collective. Every process's log, from the first of its ranks.
std::vector<std::string> gather_nccl_logs(Communicator& world, const NcclLogCapture& capture);

}  // namespace nqd::collectives

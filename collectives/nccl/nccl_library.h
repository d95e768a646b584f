// The NCCL library that a process opens when it first needs it (nccl_loader.cpp). Built with
// NQD_WITH_NCCL; otherwise no_nccl_library.cpp answers.
#pragma once

#include <string>

namespace nqd::collectives {

struct NcclLibrary {
  bool built = false;
  std::string version;  // "2.28.9" of the library loaded, empty without it
  std::string reason;   // why it cannot be used, empty when it can
};

// Never throws.
NcclLibrary nccl_library();

}  // namespace nqd::collectives

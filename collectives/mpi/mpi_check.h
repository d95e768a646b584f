// Errors of the MPI library as exceptions. Only for the .cpp files of this folder: it includes
// mpi.h.
#pragma once

#include <mpi.h>

#include <string>

#include "base/error.h"

namespace nqd::collectives::mpi {

inline std::string error_text(int code) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  return {text, static_cast<std::size_t>(length)};
}

// `call` is the name of the function that returned `code`.
inline void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  throw Error(ExitCode::kFault, "NQD4010", std::string(call) + " failed: " + error_text(code));
}

}  // namespace nqd::collectives::mpi

// Errors of the CUDA runtime as exceptions.
#pragma once

#include <cstdint>
#include <source_location>
#include <string>
#include <string_view>

namespace nqd::engine::cuda {

// The rank that errors of the calling thread name (ranks may be threads); −1 for none.
void set_thread_rank(int rank);

// Whether an error of this code (a cudaError_t) leaves the process without a usable context: every
// later call returns it again, and only a new process can go on.
bool is_sticky(int error);

// What failed, for the message.
struct FailedCall {
  std::string call;         // "cudaMemcpyAsync"
  int error = 0;            // a cudaError_t
  std::string name;         // "cudaErrorIllegalAddress"
  std::string description;  // "an illegal memory access was encountered"
  int rank = -1;            // −1: not known
  int device = -1;          // −1: none chosen
  std::string file;         // from the root of the sources
  unsigned line = 0;
};
// Throws Error: NQD4061 for a sticky error, else NQD4060.
[[noreturn]] void fail(const FailedCall& failed);

// Nothing for cudaSuccess (0); else fail() with what the runtime says of it. Out of memory is a
// failed call like any other here: allocations go through a DevicePool, which knows the plan.
void check(int error, std::string_view call,
           std::source_location where = std::source_location::current());
// After a kernel was launched: throws if it could not be.
void check_launch(std::string_view kernel,
                  std::source_location where = std::source_location::current());

// Throws NQD3062 where a grid has more blocks than a launch takes (2^31 − 1).
void require_grid(std::int64_t blocks);

}  // namespace nqd::engine::cuda

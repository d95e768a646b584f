#include <cuda_runtime_api.h>

#include "engine/cuda/error.h"

namespace nqd::engine::cuda {
namespace {

thread_local int thread_rank = -1;

// From the last folder of the path that this tree's files are below.
std::string from_root(std::string_view file) {
  const auto at = file.rfind("/engine/");
  return std::string(at == std::string_view::npos ? file : file.substr(at + 1));
}

[[noreturn]] void fail_at(int error, std::string_view call, const std::source_location& where) {
  FailedCall failed;
  failed.call = call;
  failed.error = error;
  failed.name = cudaGetErrorName(static_cast<cudaError_t>(error));
  failed.description = cudaGetErrorString(static_cast<cudaError_t>(error));
  failed.rank = thread_rank;
  // A failure leaves −1 there, which the message leaves out.
  if (cudaGetDevice(&failed.device) != cudaSuccess) failed.device = -1;
  failed.file = from_root(where.file_name());
  failed.line = where.line();
  // What is not sticky is also the runtime's last error until it is read.
  static_cast<void>(cudaGetLastError());
  fail(failed);
}

}  // namespace

void set_thread_rank(int rank) { thread_rank = rank; }

void check(int error, std::string_view call, std::source_location where) {
  if (error != cudaSuccess) fail_at(error, call, where);
}

void check_launch(std::string_view kernel, std::source_location where) {
  const cudaError_t error = cudaPeekAtLastError();
  if (error != cudaSuccess) fail_at(error, "the launch of " + std::string(kernel), where);
}

}  // namespace nqd::engine::cuda

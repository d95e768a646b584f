#include <cblas.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

#include "engine/gemm/gemm.h"

namespace nqd::engine {
namespace {

// OpenBLAS starts with one thread a core; ranks are threads or processes of their own here.
void use_one_thread_at_first() {
  static const bool once = [] {
    openblas_set_num_threads(1);
    return true;
  }();
  static_cast<void>(once);
}

CBLAS_TRANSPOSE cblas_op(Transpose op) { return op == Transpose::kYes ? CblasTrans : CblasNoTrans; }

// "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH …" -> "0.3.21"
std::string version_of(const std::string& config) {
  std::istringstream words(config);
  std::string library, version;
  words >> library >> version;
  return version;
}

bool machine_has_avx2() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  std::string line;
  while (std::getline(cpuinfo, line)) {
    if (line.starts_with("flags")) return line.find(" avx2") != std::string::npos;
  }
  return false;
}

bool is_older_than_avx2(std::string_view core) {
  constexpr std::array<std::string_view, 17> kOldCores = {
      "Katmai", "Coppermine",   "Northwood",  "Prescott", "Banias",     "Atom",
      "Core2",  "Penryn",       "Dunnington", "Nehalem",  "Athlon",     "Opteron",
      "Bobcat", "Opteron_SSE3", "Barcelona",  "Nano",     "Sandybridge"};
  return std::find(kOldCores.begin(), kOldCores.end(), core) != kOldCores.end();
}

std::string file_that_defines(const void* symbol) {
  Dl_info info{};
  if (dladdr(symbol, &info) == 0 || info.dli_fname == nullptr) return "";
  return info.dli_fname;
}

std::string warning_for(const std::string& core) {
  const std::string product = file_that_defines(reinterpret_cast<const void*>(&cblas_sgemm));
  const std::string openblas =
      file_that_defines(reinterpret_cast<const void*>(&openblas_get_corename));
  if (product != openblas) {
    return "cblas_sgemm is answered by " + product + " instead of OpenBLAS (" + openblas +
           "): another BLAS is loaded first; check LD_PRELOAD and LD_LIBRARY_PATH";
  }
  if (const char* forced = std::getenv("OPENBLAS_CORETYPE")) {
    return std::string("OPENBLAS_CORETYPE=") + forced + " forces the kernels of core " + core +
           "; unset it to let OpenBLAS choose";
  }
  if (machine_has_avx2() && is_older_than_avx2(core)) {
    return "OpenBLAS did not recognise this CPU and uses the kernels of core " + core +
           ", which lack AVX2; install a newer OpenBLAS";
  }
  return "";
}

}  // namespace

void gemm(Transpose a_op, Transpose b_op, std::int64_t m, std::int64_t n, std::int64_t k,
          float alpha, const float* a, std::int64_t lda, const float* b, std::int64_t ldb,
          float beta, float* c, std::int64_t ldc) {
  use_one_thread_at_first();
  const auto to_blas = [](std::int64_t extent) { return static_cast<blasint>(extent); };
  cblas_sgemm(CblasRowMajor, cblas_op(a_op), cblas_op(b_op), to_blas(m), to_blas(n), to_blas(k),
              alpha, a, to_blas(lda), b, to_blas(ldb), beta, c, to_blas(ldc));
}

void set_gemm_threads(int threads) {
  use_one_thread_at_first();
  openblas_set_num_threads(threads);
}

GemmLibrary gemm_library() {
  const std::string core = openblas_get_corename();
  return {"openblas", version_of(openblas_get_config()), core, warning_for(core)};
}

}  // namespace nqd::engine

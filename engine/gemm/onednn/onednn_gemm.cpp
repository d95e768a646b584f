#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

#include <atomic>
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "engine/gemm/gemm.h"

namespace nqd::engine {
namespace {

std::atomic<int> g_threads{1};

// OpenMP keeps its thread count per calling thread, and every rank thread starts with all cores.
void apply_thread_count() {
  thread_local int applied = 0;
  const int wanted = g_threads.load(std::memory_order_relaxed);
  if (applied == wanted) return;
  omp_set_num_threads(wanted);
  applied = wanted;
}

char onednn_op(Transpose op) { return op == Transpose::kYes ? 'T' : 'N'; }

std::string isa_name() {
  switch (dnnl_get_effective_cpu_isa()) {
    case dnnl_cpu_isa_sse41:
      return "sse41";
    case dnnl_cpu_isa_avx:
      return "avx";
    case dnnl_cpu_isa_avx2:
      return "avx2";
    case dnnl_cpu_isa_avx2_vnni:
      return "avx2_vnni";
    case dnnl_cpu_isa_avx512_core:
      return "avx512_core";
    case dnnl_cpu_isa_avx512_core_vnni:
      return "avx512_core_vnni";
    case dnnl_cpu_isa_avx512_core_bf16:
      return "avx512_core_bf16";
    default:
      return "isa " + std::to_string(static_cast<int>(dnnl_get_effective_cpu_isa()));
  }
}

}  // namespace

void gemm(Transpose a_op, Transpose b_op, std::int64_t m, std::int64_t n, std::int64_t k,
          float alpha, const float* a, std::int64_t lda, const float* b, std::int64_t ldb,
          float beta, float* c, std::int64_t ldc) {
  apply_thread_count();
  const dnnl_status_t status =
      dnnl_sgemm(onednn_op(a_op), onednn_op(b_op), m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  if (status != dnnl_success) {
    throw Error(ExitCode::kFault, "NQD4040",
                "oneDNN refused a matrix product of " + std::to_string(m) + " x " +
                    std::to_string(n) + " x " + std::to_string(k) + " (status " +
                    std::to_string(static_cast<int>(status)) + ")",
                "Check the free memory, or build with -DNQD_GEMM=eigen.");
  }
}

void set_gemm_threads(int threads) { g_threads.store(threads, std::memory_order_relaxed); }

GemmLibrary gemm_library() {
  const dnnl_version_t* version = dnnl_version();
  std::string warning;
  for (const char* variable : {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"}) {
    const char* forced = std::getenv(variable);
    if (forced == nullptr) continue;
    warning = std::string(variable) + "=" + forced + " limits oneDNN's kernels to " + isa_name() +
              "; unset it to let oneDNN choose";
  }
  return {"onednn",
          std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
              std::to_string(version->patch),
          isa_name(), warning};
}

}  // namespace nqd::engine

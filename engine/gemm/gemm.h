// The one matrix-product seam. Which library answers is decided at build time (NQD_GEMM).
#pragma once

#include <cstdint>
#include <string>

namespace nqd::engine {

enum class Transpose : bool { kNo, kYes };

// C[m,n] = alpha · op(A)[m,k] · op(B)[k,n] + beta · C, row-major float32, leading dimensions in
// elements of the stored (untransposed) matrices. beta is 0 or 1. Single-threaded unless
// set_gemm_threads raised it; the same call on the same machine gives the same bits.
void gemm(Transpose a_op, Transpose b_op, std::int64_t m, std::int64_t n, std::int64_t k,
          float alpha, const float* a, std::int64_t lda, const float* b, std::int64_t ldb,
          float beta, float* c, std::int64_t ldc);

// Threads a call may use, process-wide. Call before ranks start.
void set_gemm_threads(int threads);

struct GemmLibrary {
  std::string name;     // "openblas", "onednn", "eigen"
  std::string version;  // "0.3.21"
  std::string core;     // kernel family the library selected: "Zen", "avx2", …
  // Empty when all is well; else why this core is slower than the machine's own (forced by
  // OPENBLAS_CORETYPE, generic kernel, reference BLAS behind the alternatives link).
  std::string warning;
};
GemmLibrary gemm_library();

}  // namespace nqd::engine

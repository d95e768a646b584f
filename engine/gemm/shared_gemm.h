// A product of the matrix library, divided among the workers of one rank.
#pragma once

#include <cstdint>

#include "engine/gemm/gemm.h"
#include "engine/threads/worker_pool.h"

namespace nqd::engine {

// gemm() with the workers of `pool` (null: the caller alone), each of which calls the library on
// its own rows or columns of C. The library starts no threads of its own, so that none of them
// spin on the cores of other ranks. The bits may depend on the number of workers.
void shared_gemm(WorkerPool* pool, Transpose a_op, Transpose b_op, std::int64_t m, std::int64_t n,
                 std::int64_t k, float alpha, const float* a, std::int64_t lda, const float* b,
                 std::int64_t ldb, float beta, float* c, std::int64_t ldc);

}  // namespace nqd::engine

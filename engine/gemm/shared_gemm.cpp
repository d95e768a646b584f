#include "engine/gemm/shared_gemm.h"

#include <algorithm>

namespace nqd::engine {
namespace {

// Below this many multiply-adds a worker costs more to wake than it saves.
constexpr std::int64_t kSmallProduct = std::int64_t{1} << 19;
// Parts are whole multiples of the tiles of today's libraries, which are this wide and high at
// most.
constexpr std::int64_t kTileColumns = 48;
constexpr std::int64_t kTileRows = 24;

WorkerShare tile_share(std::int64_t count, std::int64_t tile, int worker, int workers) {
  const WorkerShare share = worker_share((count + tile - 1) / tile, worker, workers);
  return {std::min(share.begin * tile, count), std::min(share.end * tile, count)};
}

}  // namespace

void shared_gemm(WorkerPool* pool, Transpose a_op, Transpose b_op, std::int64_t m, std::int64_t n,
                 std::int64_t k, float alpha, const float* a, std::int64_t lda, const float* b,
                 std::int64_t ldb, float beta, float* c, std::int64_t ldc) {
  if (pool == nullptr || pool->threads() == 1 || m * n * k < kSmallProduct) {
    return gemm(a_op, b_op, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  }
  // Every worker packs the whole of the operand that is not divided: the smaller one.
  const bool by_rows = m >= n;
  pool->run([&](int worker) {
    if (by_rows) {
      const WorkerShare rows = tile_share(m, kTileRows, worker, pool->threads());
      if (rows.begin == rows.end) return;
      const std::int64_t step = a_op == Transpose::kYes ? 1 : lda;
      gemm(a_op, b_op, rows.end - rows.begin, n, k, alpha, a + rows.begin * step, lda, b, ldb, beta,
           c + rows.begin * ldc, ldc);
    } else {
      const WorkerShare columns = tile_share(n, kTileColumns, worker, pool->threads());
      if (columns.begin == columns.end) return;
      const std::int64_t step = b_op == Transpose::kYes ? ldb : 1;
      gemm(a_op, b_op, m, columns.end - columns.begin, k, alpha, a, lda, b + columns.begin * step,
           ldb, beta, c + columns.begin, ldc);
    }
  });
}

}  // namespace nqd::engine

#include "engine/device/cpu_products.h"

#include <algorithm>
#include <stdexcept>

#include "engine/gemm/shared_gemm.h"
#include "planner/layout/activation_buffers.h"

namespace nqd::engine {
namespace {

bool is_float32(const FixedProduct& product) {
  return product.a.type == DType::kFloat32 && product.b.type == DType::kFloat32 &&
         product.c.type == DType::kFloat32;
}

// The operand that begins `row` rows and `column` columns of op(x) further.
FixedInput at(const FixedInput& x, std::int64_t row, std::int64_t column) {
  const bool transposed = x.op == Transpose::kYes;
  const std::int64_t elements = transposed ? column * x.stride + row : row * x.stride + column;
  FixedInput moved = x;
  moved.data = static_cast<const std::byte*>(x.data) +
               elements * static_cast<std::int64_t>(size_bytes(x.type));
  return moved;
}

}  // namespace

CpuProducts::CpuProducts(FixedGemm& fixed, const SliceShare& share, float* scratch,
                         WorkerPool* workers)
    : fixed_(fixed), share_(share), scratch_(scratch), workers_(workers) {
  if (workers == nullptr || workers == fixed.pool()) return;
  throw std::invalid_argument("a chunk and its products need the same workers");
}

void CpuProducts::run(const FixedProduct& product) {
  if (share_.canonical || !is_float32(product)) return fixed_.run(product);
  shared_gemm(workers_, product.a.op, product.b.op, product.m, product.n, product.k, product.alpha,
              static_cast<const float*>(product.a.data), product.a.stride,
              static_cast<const float*>(product.b.data), product.b.stride,
              product.accumulate ? 1.0F : 0.0F, static_cast<float*>(product.c.data),
              product.c.stride);
}

void CpuProducts::run_sliced(FixedProduct product, std::int64_t full) {
  product.slices = share_.of(full);
  run(product);
}

void CpuProducts::run_stacked(float* out, std::int64_t m, std::int64_t n,
                              std::span<const StackedBlock> blocks, int tp) {
  if (blocks.size() == 1) {
    const StackedBlock& one = blocks.front();
    return run_sliced({m, n, one.width, one.a, one.b, result(out, n)}, one.width * tp);
  }
  if (share_.canonical) return run_slices(out, m, n, blocks, tp);
  bool accumulate = false;
  for (const StackedBlock& block : blocks) {
    run({m, n, block.width, block.a, block.b, result(out, n), 1.0F, accumulate});
    accumulate = true;
  }
}

void CpuProducts::run_slices(float* out, std::int64_t m, std::int64_t n,
                             std::span<const StackedBlock> blocks, int tp) {
  const int workers = workers_ == nullptr ? 1 : workers_->threads();
  const auto work = [&](int worker) {
    // Rows that lie in the scratch together are divided, so that each worker has its own of it: the
    // same for every block of rows, because workers do not wait for one another between them.
    const std::int64_t height = std::min(planner::kSlicedRows, m);
    const WorkerShare own = worker_share(height, worker, workers);
    for (std::int64_t row = 0; row < m; row += height) {
      const std::int64_t begin = std::min(row + own.begin, m);
      const std::int64_t end = std::min(row + own.end, m);
      if (begin == end) continue;
      add_slices(out, {begin, end - begin, scratch_ + own.begin * n, height, worker}, n, blocks,
                 tp);
    }
  };
  if (workers == 1) return work(0);
  workers_->run(work);
}

// Partial sums of finished nodes wait on a stack, nearest on top, as in a binary counter.
void CpuProducts::add_slices(float* out, const SlicedRows& rows, std::int64_t n,
                             std::span<const StackedBlock> blocks, int tp) {
  const auto add = [&](float* __restrict to, const float* __restrict from) {
    for (std::int64_t i = 0; i < rows.count * n; ++i) to[i] += from[i];
  };
  int height = 0;
  const auto level = [&](int i) {
    return i == 0 ? out + rows.first * n : rows.scratch + (i - 1) * rows.scratch_rows * n;
  };
  for (int slice = 0; slice < share_.count; ++slice) {
    run_slice(level(height++), rows, n, blocks, tp, share_.first + slice);
    // As many nodes are complete as the number of slices so far has trailing zero bits.
    for (int done = slice + 1; done % 2 == 0; done /= 2) {
      --height;
      add(level(height - 1), level(height));
    }
  }
  // The ragged end of a number of slices that is no power of two.
  for (; height > 1; --height) add(level(height - 2), level(height - 1));
}

void CpuProducts::run_slice(float* out, const SlicedRows& rows, std::int64_t n,
                            std::span<const StackedBlock> blocks, int tp, int slice) {
  bool accumulate = false;
  for (const StackedBlock& block : blocks) {
    const std::int64_t part = share_.width(block.width * tp);
    const std::int64_t begin = std::min((slice - share_.first) * part, block.width);
    const std::int64_t width = std::min(part, block.width - begin);
    if (width == 0 && accumulate) continue;
    fixed_.run_alone({rows.count, n, width, at(block.a, rows.first, begin), at(block.b, begin, 0),
                      result(out, n), 1.0F, accumulate},
                     rows.worker);
    accumulate = true;
  }
}

}  // namespace nqd::engine
